"""Publishing from Spark: rows of a DataFrame or a stream become messages of a broker.

Read `write_options`, `rows`, `broker_client` (the MQTT client of a task), then `batch_writer` (at least once) and
`stream_writer` (exactly once, with `ledger`).
"""
