"""Subscriptions: SUBSCRIBE and UNSUBSCRIBE, shared groups, replays, and retained messages for new subscriptions.

Read `subscribe_handler` (the packets), `subscriptions` (live ones, and those that begin in the past), then
`share_groups` and `retained_deliveries`. `replay_request` and `share_request` read what a
client asks for in user properties.
"""
