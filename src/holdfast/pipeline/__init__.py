"""Spark over history: `session` makes a Spark that is set up for it, `history` is a table of stored messages.

from holdfast.pipeline import history, session

spark = session()
history(spark, "factory/+/temperature", since="-1d", path="/var/lib/holdfast").groupBy("topic").count().show()

Nothing is imported before it is used: Spark's workers come through here as well, and want only a part of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.pipeline.frames import history
    from holdfast.pipeline.loading import Files, load
    from holdfast.pipeline.spark_session import session

__all__ = ["Files", "history", "load", "session"]

_HOMES: Final = {"Files": "loading", "history": "frames", "load": "loading", "session": "spark_session"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
