"""What a process and its host tell: records, journals, clocks, kernel sockets."""
