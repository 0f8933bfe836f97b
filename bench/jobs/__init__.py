"""Spark's jobs over history as a user runs them: how many rows a second, and how much memory their driver takes."""
