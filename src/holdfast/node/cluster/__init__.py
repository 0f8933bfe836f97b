"""A node of a cluster: what `[cluster]` in the settings adds to a broker.

Read `cluster_options` (from the settings), `cluster_embedding` (start and stop), `cluster_storage` (the stores of its
broker), `cluster_installation` (checkpoints of other members) and `cluster_jobs` (leases and erasures).
"""
