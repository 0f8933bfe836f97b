"""One RocksDB per node, with the message log, the sessions and the retained messages in it.

engine/     the database: batches in, receipts out; recovery after a crash, damage, full disks
layouts/    which keys the messages of one generation get
log/        zones, shards, generations: writing, reading, retention
sessions/, retained/    what is committed together with messages
shipments/  generations that were made by a job beside the broker, and how they become part of the log
checking/   `holdfast verify` and what a data folder holds; bench/ the comparison of layouts; backup.py
"""
