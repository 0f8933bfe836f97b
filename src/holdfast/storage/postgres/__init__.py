"""Client queues in PostgreSQL, behind the contract `durable/queue_store.py`.

queues.py        the contract: reading, acknowledging, ending, sweeping
appending.py     many packs in one transaction
limits.py        what a pack does to a queue that has limits; no I/O
statements.py    SQL
schema.py        the tables, by version
rows.py          a message as columns
connections.py   connections, errors as families, again until it works or the time is up
options.py       what the operator may say
tbmq.py          reads the queues of a TBMQ 1.x
"""
