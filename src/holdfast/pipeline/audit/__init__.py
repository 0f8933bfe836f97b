"""`holdfast spark audit`: checks of all history, and of what sessions are owed of it.

Read `job` (which checks, in which order) and `findings` (faults, verdicts). `stored_state` reads what is checked; each
`*_check` finds one kind of fault: serials and order, index, sessions, retained messages, the lake.
"""
