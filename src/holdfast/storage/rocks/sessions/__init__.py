"""Sessions in RocksDB, and what is stored for publishers and external queues in the same commits.

Read `session_store.py` first; `packet_slots.py` is its key layout for QoS 2. `session_import.py` and
`session_backends.py` change the sessions of a stopped broker.
"""
