"""What samples tell of the processes of both sides while a run went on."""
