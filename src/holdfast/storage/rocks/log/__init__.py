"""The message log: zones cut into shards and generations, written by batches, read by filter and position.

Read `commit_log.py` (a batch on its way to its receipt), then `zone_log.py` (the generations of a zone) and
`log_reader.py` with `shard_scan.py` (readers). `startup.py` opens a log, `maintenance.py` rotates, drops and indexes,
`segment_writer.py` makes segments of commit pages, and `damaged_pages.py` leaves out those that cannot be read. Files
that other processes share with the broker: `published_heads.py`, `head_marks.py`, `leases.py`, `next_patterns.py`,
`erasure_file.py`.
"""
