"""The accuracy lab: known causes of latency, an observer beside trilat, and the difference."""
