"""Layouts: which keys the messages of one shard and generation get, behind the contract in `layout.py`.

timeline          by time alone; the reference
learned           one stream per learned pattern, with posting blocks written behind; the default
bitmask           epoch, topic index, time
bitmask-zorder · interleaved · indexed      for comparison in the bench

`build.py` makes them by name. Shared: `write_through.py`, `streams.py`, `postings.py`, `topic_check.py`.
"""
