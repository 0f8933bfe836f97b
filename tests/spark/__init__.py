"""Real Spark over the data of a real broker."""
