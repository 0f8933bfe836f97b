"""A vnode at work on a node: what the node writes into its log, what it applies, and what its leader proposes.

writer               items of this node become records of the log; `open_record` is the one being filled
applier              entries of the log become batches of the database
outcome_watch        what is noted of every outcome: `record_counts`, `digest_watch`
vnode_leader         what time brings about: ticks, wills, ends of sessions
generation_rules     when generations begin and go; `retained_compaction` which retained entries go
trim_rules           where the log is trimmed
"""
