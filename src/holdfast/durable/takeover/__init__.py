"""Which connection of a client id counts: the registry of channels, one in memory, and the takeover state machine."""
