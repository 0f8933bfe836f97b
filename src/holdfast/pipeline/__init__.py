"""Spark over history: `session` makes a Spark that is set up for it, `history` is a table of stored messages.

from holdfast.pipeline import history, session

spark = session()
history(spark, "factory/+/temperature", since="-1d", path="/var/lib/holdfast").groupBy("topic").count().show()
"""

from holdfast.pipeline.frames import history
from holdfast.pipeline.loading import Files, load
from holdfast.pipeline.spark_session import session

__all__ = ["Files", "history", "load", "session"]
