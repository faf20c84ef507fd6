"""The marks of a request, taken where its bytes go by: in the sockets."""
