"""Listeners: thin shells that move bytes between sockets and connections."""
