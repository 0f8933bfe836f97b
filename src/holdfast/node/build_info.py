"""What is running: the version, whether it is compiled, and the versions of Python and RocksDB."""

import importlib
import platform
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version

import holdfast


def is_compiled() -> bool:
    """Whether the pure packages are compiled. A build compiles all of them or none, so one module is enough to tell."""
    module = importlib.import_module("holdfast.wire.framing")
    return (module.__file__ or "").endswith(tuple(EXTENSION_SUFFIXES))


def describe() -> str:
    """One line for `holdfast --version` and the first line of the log."""
    mode = "compiled" if is_compiled() else "interpreted"
    python = f"Python {platform.python_version()}"
    return f"holdfast {holdfast.__version__} ({mode}), {python}, rocksdict {version('rocksdict')} (RocksDB)"
