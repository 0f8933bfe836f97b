"""What Spark's Python workers load stays out of their garbage collections.

A worker of Spark collects all garbage behind every task. By then it has loaded PySpark, Arrow and Holdfast, and looks
at all their objects, which are never garbage: a third of Python's work in a query of two columns, measured with tasks
of 100,000 messages.
"""

import gc
import sys
from typing import Final

_WORKER: Final = "pyspark.daemon"
#: Whether it was done. `gc.get_freeze_count` tells as well, and walks over all frozen objects for it.
_frozen = False


def freeze_worker_heap() -> None:
    """Once in a worker, when all that a task needs is loaded: what is there now is not looked at again.

    Elsewhere it does nothing: in the driver there may be garbage of the program around it.
    """
    global _frozen
    if not _frozen and _is_worker():
        _frozen = True
        gc.freeze()


def _is_worker() -> bool:
    """Whether this process was started by Spark to run Python, and is used for task after task."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _WORKER
