"""Logs on real NATS servers: their faults, their settings, and the server that a node runs."""
