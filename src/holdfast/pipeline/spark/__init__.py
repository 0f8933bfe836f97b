"""What all jobs need of Spark.

`session` with its settings, `java` to run it on, the `installation` of both, `start_cache` with what makes it start
faster, such as a `class_archive`; `runner` for tasks and rounds, `progress` of a job, `watched_work` that Ctrl-C ends,
`errors` in one line, `log` for warnings of workers, `option_texts` of readers and writers, `fault_points` for tests
that kill a job.
"""
