"""The replicated state machine of a vnode: what becomes of each record of its ordered log, alike on every node. Pure.

`machine.py` has the rules in their order and calls the others: `record_time.py` (4), `epochs.py` (2, 3, 9),
`channels.py` (5 to 8), `closing.py` (9, client by client), `leadership.py` (10, groups), `shards.py` (11, 12, retained
messages), `decisions.py` (settings, level, holders). They read `tables.py` and fill an `outcome.py`; `step_items.py`
translates steps of sessions. `control.py` is the machine of the control log: members of the cluster.
"""
