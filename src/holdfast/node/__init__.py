"""A node: settings, assembly, and its life from start to stop. The only package that picks implementations.

settings/   every key, its sources and its rules
assembly    settings → a broker with its stores and listeners
storage     what is on disk; `disk_maintenance` is its work once a second, `queue_stores` the queues outside the log
embedding   a node inside another program; `lifecycle`, `shutdown` and `reload` make a process of it
control/    the control socket: what others ask a broker, and what it answers
processes/  the processes beside a broker: history, console, segments; each with its supervisor
cluster/    what `[cluster]` adds: a node of several
"""
