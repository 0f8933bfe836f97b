"""The Spark data source `holdfast`: history and the broker's other tables, as batches and as streams.

Read `data_source`, then `read_options`, `history_source` (by path or by endpoint), `batch_reader`, `stream_reader`
and `partitions`. Spark imports these modules in every worker, so a module imports what it needs where it needs it.
"""
