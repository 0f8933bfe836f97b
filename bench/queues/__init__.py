"""Homes of client queues, measured; and the servers that benchmarks and tests start for themselves."""
