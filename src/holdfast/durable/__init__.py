"""Contracts of everything that keeps state, each with an implementation in memory. Pure.

The log: `commit.py` (batch and receipt), `log.py` (the contract of readers), `replay.py` (their iterator). What writes
it: `zones.py`, `placement.py`, `shard.py`, `positions.py`, `ring.py`, `tails.py`, `changes.py`. Then `queues/`,
`sessions/`, `retained/` and `takeover/`. Of a cluster: `ordered_log.py`, the log that all nodes read, and
`state_machine/`, which decides its records.
"""
