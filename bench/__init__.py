"""Benchmarks: what a message costs, in the pure packages and through whole brokers. Run from the root: `make bench`."""
