"""`holdfast spark migrate`: client queues from one backend into another, or from a TBMQ.

Read `job` (on the driver: lists, starts Spark, compares sums), then `task` (copies a share of the clients).
"""
