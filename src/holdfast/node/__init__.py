"""A node: settings, assembly, and its life from start to stop. The only package that picks implementations.

settings/           every key, its sources and its rules
assembly            settings → a broker with its stores and listeners
storage             what is on disk; `disk_maintenance` is its work once a second
queue_stores        the queue backends outside the log
embedding           a node inside another program; `lifecycle`, `shutdown` and `reload` make a process of it
history_supervisor  keeps the history process running; `history_main` is that process
console_supervisor  keeps the console process running; `console_main` is that process; `supervision` is what they share
segment_supervisor  has segments of the log built by a process; `segment_main` is that process
"""
