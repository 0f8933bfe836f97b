"""`holdfast spark load`: rows with their own times, from files or a DataFrame, into the log.

Read `job`, then `input` (columns to messages), `lane_plan` and `plan` (where they go), `rows` (work of Spark tasks).
The package is not called `load`: `holdfast.pipeline.load` is the public function.
"""
