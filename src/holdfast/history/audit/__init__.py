"""What an audit reads of a data folder, as record batches: also for Flight, so that an audit may run elsewhere.

Read `queries` (what may be asked), then `stored_rows` (the log as it lies there) and `queue_states` (sessions).
"""
