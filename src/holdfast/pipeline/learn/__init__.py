"""`holdfast spark learn`: topic patterns from all of history.

Read `job`, then `rules` (which tokens are names) and `learner` (level by level), `topic_counts` (the counting on
Spark), `patterns` (the result) and `description` (the result for people).
"""
