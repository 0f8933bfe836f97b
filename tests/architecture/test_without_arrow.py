"""The past is read without Arrow: the plain install has neither pyarrow nor numpy."""

import pkgutil
import subprocess
import sys

from holdfast.history import past

MODULES = [
    "holdfast.history.reader.reader",
    "holdfast.history.reader.reader_pool",
    "holdfast.history.explanation",
    "holdfast.history.tables.session_view",
    "holdfast.history.tables.queue_view",
    "holdfast.history.tables.retained_view",
    "holdfast.history.servers",
    "holdfast.node.processes.history_main",
    *[f"holdfast.history.past.{module.name}" for module in pkgutil.iter_modules(past.__path__)],
]


def test_nothing_that_the_past_is_read_with_imports_arrow() -> None:
    """What is served then: tests/unit/node/test_history_supervisor.py."""
    assert len(MODULES) > 15
    program = f"""
import importlib, sys
sys.modules.update(dict.fromkeys(["pyarrow", "numpy"]))
for name in {MODULES}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
