"""Stored sessions: the contract of their store, its steps and one in memory (`session_store`), and publish numbers."""
