"""Layouts: how the messages of one shard and generation are laid out as keys, behind the contract in `layout.py`.

timeline          by time alone; the reference
learned           one stream per learned pattern, with posting blocks written behind; the default
bitmask           epoch, topic index, time
bitmask-zorder · interleaved · indexed      for comparison in the bench
"""
