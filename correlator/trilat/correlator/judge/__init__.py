"""The verdict: objectives, causes, checks and what to do."""
