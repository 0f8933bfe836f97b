"""Sorted tables made on Spark and shipped into the log: what `bulk_load` and `relayout` share.

Read `topic_structures` (what the topics are), `sorted_tables` (write, hand over, read back, compare), then
`pair_batches` (with digests of messages).
"""
