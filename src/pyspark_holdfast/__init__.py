"""Spark imports every module on Python's path whose name begins with `pyspark_`, and finds the data source here.

So `spark.read.format("holdfast")` works in any session whose Python has Holdfast installed. Spark does not look into
archives that were sent with `--py-files`; there, `holdfast.pipeline.session` registers the source by hand.
"""

from holdfast.pipeline.source.data_source import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
