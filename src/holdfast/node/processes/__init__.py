"""The processes that a broker runs beside itself, and what keeps them running.

Read `child_process` (the same code, ends with the broker) and `supervision` (started again after longer and longer
pauses). Each process has a main module and a supervisor: `console_*`, `history_*`, `segment_*`. `job_process` is a job
of the console. `light_structlog` makes their starts cheaper, and that of the broker itself.
"""
