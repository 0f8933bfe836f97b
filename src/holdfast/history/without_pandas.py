"""Keeps pandas out of a process that reads history and has no use for it.

pyarrow imports pandas wherever it is installed, as soon as it makes a column of anything, to ask whether that is a
column of pandas. That doubles the start of a process that answers its first question.
"""

import sys
from importlib.abc import MetaPathFinder
from typing import Final

_PANDAS: Final = "pandas"


class _NoPandas(MetaPathFinder):
    # Not None in `sys.modules`: compiled modules take that for pandas.
    def find_spec(self, name: str, *_path_and_target: object) -> None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"no module named {name!r}: this process reads history without it", name=name)


def refuse_pandas() -> None:
    """Have imports of pandas fail in this process, unless it is imported already.

    Only main modules of processes call this: another program that reads history may use pandas itself.
    """
    if _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())
