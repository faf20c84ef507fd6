"""Who looks at a run while it goes on, or right behind it: web tab, CSV, events, files."""
