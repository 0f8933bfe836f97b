"""Ordered logs on three NATS servers of this machine: how long an append takes, and a change of leader."""
