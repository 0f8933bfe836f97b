"""Compaction of a lake: workers of Spark write large files, the driver puts them in the place of small ones.

Read `plan` (which files become one), then `task` (how a worker writes it). The transaction is in `lake/upkeep.py`.
"""
