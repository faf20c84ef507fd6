"""Requests from journals: attributed as they come, and one by one on demand."""
