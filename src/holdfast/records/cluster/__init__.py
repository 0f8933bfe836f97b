"""What the nodes of a cluster write into their ordered logs, byte by byte.

Read `record.py` (a record: who wrote it, and its items), `items.py` (what an item says), `session_steps.py` (steps of
sessions as items) and `settings.py` (the zones of a vnode).
"""
