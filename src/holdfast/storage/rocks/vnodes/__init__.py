"""Vnodes of a cluster on RocksDB: the storage of one node.

`vnode_store.py` has the tables of one vnode and writes what its records decide, with the messages (`vnode_messages.py`,
`shard_part.py`) in one batch. `vnode_log.py`, `vnode_sessions.py` and `vnode_retained.py` read all vnodes of a node as
one store each, `vnode_segments.py` has segments made, and `node_store.py` puts them together. Which rows there are, and
what they mean, is decided in `durable/state_machine`; their keys are those of `records/cluster/vnode_keys.py`.
"""
