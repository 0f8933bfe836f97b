"""Stored messages for readers outside the broker."""
