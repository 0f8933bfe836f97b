"""What all jobs need of Spark.

`session` with its settings and `java` to run it on; `runner` for tasks and rounds, `progress` of a query, `errors` in
one line, `log` for warnings of workers, `option_texts` of readers and writers, `fault_points` for tests that kill a
job.
"""
