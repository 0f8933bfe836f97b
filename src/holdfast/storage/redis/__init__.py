"""Client queues in Redis or Redis Cluster, behind the contract `durable/queue_store.py`.

queues.py      the contract, as script calls and their replies
appending.py   packs as one call takes them, and what became of them
scripts.py     what happens in Redis, each call in one step
calls.py       many script calls, grouped by server, sent again until they arrive or the time is up
servers.py     who serves a key: one Redis, or the masters of a cluster
line.py        connections to one server
keys.py        names
options.py     what the operator may say
tbmq.py        reads the queues of a TBMQ 2.x
"""
