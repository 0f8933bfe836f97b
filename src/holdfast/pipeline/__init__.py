"""Spark over history: a session that is set up for it, and the data source `holdfast`."""
