"""Contracts of everything that keeps state, each with an implementation in memory. Pure."""
