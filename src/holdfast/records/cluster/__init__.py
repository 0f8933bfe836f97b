"""What the nodes of a cluster write into their ordered logs, byte by byte.

Read `record.py` (a record: who wrote it, and its items), `items.py` (what an item says), `session_steps.py` (steps of
sessions as items) and `settings.py` (the zones of a vnode). `control.py` has the records of the control log. What a
node keeps to decide the next record is in `rows.py` and `control_rows.py`.
"""
