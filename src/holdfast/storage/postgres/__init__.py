"""Client queues in PostgreSQL, behind the contract `durable/queues/queue_store.py`.

queues              the contract: reading, acknowledging, ending, sweeping
append_transaction  many append batches in one transaction
limits              what an append batch does to a queue that has limits; no I/O
statements          SQL
schema              the tables, by version
rows                a message as columns
connection_pool     connections, errors as families, calls repeated until they succeed or the time is up
options             what the operator may say
tbmq                reads the queues of a TBMQ 1.x
"""
