"""The database of a node: one RocksDB, one write-ahead log, one commit thread.

Read `engine.py` first, then `commit_thread.py`. `recovery.py` opens a folder after a crash or damage, with
`wal_scan.py`, `synced_mark.py`, `manifest.py`, `range_tombstones.py` and `quarantine.py`. `column_families.py` has the
names of the families, `scan.py` reads keys in order, `options.py` has RocksDB's settings with their reasons.
"""
