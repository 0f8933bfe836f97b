"""The life of a node in its cluster.

founding          the first record of the control log
membership        a node joins, beats, and fences who is silent
control_snapshot  how a control log is followed whose beginning was trimmed
readiness         whether a node may serve and lead: its lag, its clock, its disk, logs that stand still
record_clock      the time of a broker: that of its machine, as far as the logs agree with it
node_report       what a node tells below `$SYS`
"""
