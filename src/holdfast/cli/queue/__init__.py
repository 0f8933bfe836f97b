"""`holdfast queue`: client queues outside the log.

`command` has the group; `move` copies, exports and imports; `tbmq` imports from TBMQ; `options` are what they share.
"""
