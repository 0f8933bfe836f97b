"""Client queues on real servers, which the tests start for themselves."""
