"""A node among others: ordered logs on NATS JetStream, what a node writes into them, and what it applies.

What a record means is decided in `durable/state_machine`. The driver `nats` is imported here alone.

cluster_log       what a broker commits, by vnode; what the logs decide, as receipts and messages to deliver
log_registry      the linear channel registry: claims, reads and releases in the logs
vnode_leader      what time brings about in a vnode: ticks, wills, ends of sessions
applier           entries of a log become batches of the database
writer            items of this node become records of a log; `open_record` is the one being filled
membership        the life of a node: it joins, beats, and fences who is silent
readiness         whether a node may serve and lead: its lag, its clock, its disk, logs that stand still
record_clock      the time of a broker: that of its machine, as far as the logs agree with it
record_counts     what became of records; `node_report` is what a node tells below `$SYS`
digest_watch      whether this node has come to the same as the others
founding          the first record of the control log
control_snapshot  how a control log is followed whose beginning was trimmed
node_cluster      the server, the connection and all logs of a node, opened and closed in their order
administration    `holdfast cluster`: found one, and tell how it is
nats_connection   requests to the servers, and what their failures mean
nats_streams      the JetStream stream of each log: how it is made, and how its settings are checked
nats_log          the contract `durable/ordered_log` on such a stream
nats_reading      the pull loop of one reader
append_watchdog   when the leader of a stream that answers no append is asked to step down
stamp_watch       when one whose stamps are wrong is
nats_server       a server as a child process: its configuration, its name, its supervision
parent_death      the program that starts the server, so that it ends with the broker
nats_monitor      what a server reports about itself, and whether that is enough
"""
