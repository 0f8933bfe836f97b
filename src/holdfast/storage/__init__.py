"""Where data is stored: `rocks/` has log, sessions and retained messages; `journal/`, `redis/`, `postgres/` queues.

The modules here are about any of them: addresses, copies and files of queues, imports from TBMQ, event files, the lock
of a data folder.
"""
