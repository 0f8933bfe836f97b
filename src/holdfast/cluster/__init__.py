"""A node among others: ordered logs, what a node writes into them, and what it applies.

What a record means is decided in `durable/state_machine`.

node_cluster      the server, the connection and all logs of a node, opened and closed in their order
cluster_node      a node at work: its membership, and each vnode with its applier, writer and leader
cluster_log       what a broker commits, by vnode; what the logs decide, as receipts and messages to deliver
nats              ordered logs on NATS JetStream
vnodes            writer, applier and leader of a vnode
registry          the channel registry: linear, or by gossip
membership        joining, beats, fences, readiness
checkpoint        how a node is installed from another one
groups            shared subscriptions
qos0_relay        QoS 0 between nodes, by the filters of `filter_exchange`
node_requests     requests between nodes; `node_service` answers those of commands
administration    `holdfast cluster`; `session_administration` is `holdfast sessions`
failpoints        where tests kill or stop a node
"""
