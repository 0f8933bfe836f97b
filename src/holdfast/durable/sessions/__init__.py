"""Stored sessions: the contract of their store and its steps (`session_store`), one in memory, and publish numbers."""
