"""One module a command. Each imports what is heavy inside its function, so that help is quick."""
