"""What waits for clients: the contracts of a session's queue, and its implementations without I/O.

client_queue     the contracts: what the exchange and the broker ask of a session's queue
log_queue        a position in the log; `owed_rule`: which of its messages are for the session
memory_queue     entries in memory
external_queue   a queue in a backend outside the log, as seen from the event loop
queue_store      the contract of such a backend; `outbox`: messages on their way to backends
"""
