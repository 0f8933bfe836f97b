"""External queues: what talks to their backends, and which client has its queue where."""
