"""What is kept of many requests: sums and distributions that merge by addition."""
