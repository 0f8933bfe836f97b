"""Sorted tables made on Spark and shipped into the log: what `bulk_load` and `relayout` share.

Read `sorted_tables` (write, hand over, read back, compare), then `pair_batches` (with digests of messages).
"""
