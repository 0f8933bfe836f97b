"""`holdfast spark relayout`: sealed generations rewritten in another layout, or restored from a lake.

Read `job`, then `plan` (which generations) and `rows` (work of Spark tasks).
"""
