"""Retained messages: the contract of their store (`retained_store`), and one in memory."""
