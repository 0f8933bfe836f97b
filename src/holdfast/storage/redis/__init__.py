"""Client queues in Redis or Redis Cluster, behind the contract `durable/queues/queue_store.py`.

queues            the contract, as script calls and their replies
scripts           what happens in Redis, each call in one step
calls             many script calls, grouped by server, sent again until they arrive or the time is up
servers           who serves a key: one Redis, or the masters of a cluster
connection_pool   connections to one server
keys              names of keys
options           what the operator may say
tbmq              reads the queues of a TBMQ 2.x
"""
