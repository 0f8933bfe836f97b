"""Layouts: which keys the messages of one shard and generation get, behind the contract in `layout.py`.

paged             a page for each commit; segments sorted by topic, with an index, made behind it; the default
learned           one stream per learned pattern, with posting blocks written behind
timeline          by time alone; the reference
bitmask           epoch, topic index, time
bitmask-zorder · interleaved · indexed      for comparison in the bench

`build.py` makes them by name. Of `paged`: `paged.py`, `segments.py`, `segment_places.py`. Shared by others:
`write_through.py`, `streams.py`, `postings.py`, `topic_check.py`. `shard_counter.py` counts messages without decoding
them.
"""
