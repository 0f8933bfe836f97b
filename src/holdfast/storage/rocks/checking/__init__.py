"""Reads everything that a data folder holds and reports precisely what is wrong with it.

Read `verification.py` first. The parts: `meta_records.py`, `shard_slices.py` with `layout_keys.py`, `state_records.py`.
`overview.py` lists generations and patterns for people.
"""
