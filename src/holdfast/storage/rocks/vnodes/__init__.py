"""Vnodes of a cluster on RocksDB.

`vnode_store.py` has the tables of one vnode and writes what its records decide. Which rows there are, and what they
mean, is decided in `durable/state_machine`; their keys are those of `records/cluster/vnode_keys.py`.
"""
