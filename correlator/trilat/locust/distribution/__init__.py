"""Locust's master and its workers: each attributes its own, and the master adds up."""
