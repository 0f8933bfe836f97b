"""What the console asks about the past, answered by the history process over a Unix socket, without Arrow.

    server      HTTP over the socket; `endpoints` has its table of paths
    questions   parameters of a question, and what a wrong one is answered with
    time_scan   messages of all shards in the order of time, both ways, within limits that a page can wait for
    cursors     how far an answer has come, as text
    messages, states, plots, sessions, retained, events, overview     one module for each kind of question
    density     how many messages there are in each bucket of time: `density_*` count, `counts_cache` keeps

Begin with `time_scan`: nearly all answers are made of what it gives. Nothing here imports pyarrow or numpy.
"""
