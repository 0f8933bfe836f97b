"""Sessions and groups as they are stored: keys, and a small record for each thing that changes by itself.

Read `session_keys` and `session_record`, then `sessions` (its lists), `progress` and `retained_progress` (how far
it was sent its messages), `groups` (shared subscriptions), `assignments` and `numbers`.
"""
