"""Spark over history: `session` makes a Spark that is set up for it, `history` is a table of stored messages.

from holdfast.pipeline import history, session

spark = session()
history(spark, "factory/+/temperature", since="-1d", path="/var/lib/holdfast").groupBy("topic").count().show()

Nothing is imported before it is used: Spark's workers come through here as well, and want only a part of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.pipeline.bulk_load.job import Files, load
    from holdfast.pipeline.source.history_frame import history
    from holdfast.pipeline.spark.java import java_home
    from holdfast.pipeline.spark.session import session

__all__ = ["Files", "history", "java_home", "load", "session"]

_MODULES: Final = {
    "Files": "bulk_load.job",
    "history": "source.history_frame",
    "java_home": "spark.java",
    "load": "bulk_load.job",
    "session": "spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
