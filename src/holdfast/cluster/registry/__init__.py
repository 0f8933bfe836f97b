"""The channel registry between nodes: which connection of a client id stays.

log_registry      the linear one: claims, reads and releases are items of the logs
gossip_registry   the modes `eventual` and `both`, over `gossip_map` and `takeover_lock`
takeover_begin    the old channel is stopped before the claim, on whichever node it is
claim_history     the last claims of each client id, to explain takeovers later
"""
