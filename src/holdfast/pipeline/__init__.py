"""Spark over history: `session` makes a Spark that is set up for it, `history` is a table of stored messages.

from holdfast.pipeline import history, session

spark = session()
history(spark, "factory/+/temperature", since="-1d", path="/var/lib/holdfast").groupBy("topic").count().show()

Spark is imported with the first of the two: modules of this package that need none are loaded without it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.pipeline.frames import history
    from holdfast.pipeline.spark_session import session

__all__ = ["history", "session"]


def __getattr__(name: str) -> Any:
    if name == "history":
        from holdfast.pipeline.frames import history

        return history
    if name == "session":
        from holdfast.pipeline.spark_session import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
