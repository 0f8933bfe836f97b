"""`holdfast spark learn`: topic patterns from all of history.

Read `job`, then `rules` (which tokens are names) and `learner` (level by level, and the patterns that result),
`topic_counts` (the counting on Spark) and `description` (the result for people).
"""
