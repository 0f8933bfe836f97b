"""Retained messages in RocksDB: `retained_store.py` keeps them, `retained_scan.py` finds those of a filter."""
