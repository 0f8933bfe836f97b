"""Which connection of a client id counts: the registry of channels, and the takeover state machine."""
