"""A node among others: it writes records into the ordered logs of its vnodes, and applies what all nodes write there.

Read `applier.py` (entries of a log become batches of the database), then `writer.py` (items of this node become
records of a log). What a record means is decided in `durable/state_machine`.
"""
