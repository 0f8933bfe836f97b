"""Shared subscriptions in a cluster: the node that leads a group's vnode says which member gets which message.

Read in this order: `led_group` (one group, as its leader has it), `dispatcher` (the groups of a vnode, and the nodes of
their members), `member_shares` (the members at one node, for its broker), `node_groups` (both ends of a node).
"""
