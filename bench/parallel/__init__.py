"""Whether reading in parallel beats one subscriber: one history, read by one, by a group, and by Spark."""
