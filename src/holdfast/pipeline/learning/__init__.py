"""Learning topic patterns from all of history: rules, the counting on Spark that feeds them, and words for people."""
