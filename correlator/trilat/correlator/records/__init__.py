"""Journal records: read as arrays, and written out for other tools."""
