"""The lake: a Delta table of archived messages.

Read `lake`, then `archive` and `archive_job` (the log into the lake), `lake_reader` (the lake, or lake and log
as one table), `retention` (old days, compaction, erasure). `delta_files` and `delta_log` write any Delta table.
"""
