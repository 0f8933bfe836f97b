"""`holdfast spark replay`: stored messages published into a broker, each once.

Read `job`, then `plan`, `schedule` (when each message is due), `state` (on disk), `task` and `rows` (in workers).
"""
