"""What a worker of Spark has loaded is not looked at for garbage again."""

import subprocess
import sys

import pytest

_PROGRAM = """
import gc, sys
from importlib.machinery import ModuleSpec
from holdfast.pipeline.spark.worker_heap import freeze_worker_heap
sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None) if sys.argv[1] else None
freeze_worker_heap()
first = gc.get_freeze_count()
later = [[number] for number in range(1000)]
freeze_worker_heap()
print(first > 0, gc.get_freeze_count() == first)
"""


@pytest.mark.parametrize(("name", "frozen"), [("pyspark.daemon", True), ("pytest.__main__", False), ("", False)])
def test_only_workers_freeze_their_heap_and_once(name: str, *, frozen: bool) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, name], capture_output=True, text=True, check=True)
    assert done.stdout == f"{frozen} True\n"
