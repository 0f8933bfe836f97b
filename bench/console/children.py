"""What the processes of this benchmark have in common. Imports little: they start with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import holdfast

_WAIT_S = 60.0
_LOOK_S = 0.02


def environment() -> dict[str, str]:
    """For processes that use the Holdfast of this one."""
    return {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}


def wait_for(what: str, done: Callable[[], bool], limit_s: float = _WAIT_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"not within {limit_s:.0f} s: {what}")
        time.sleep(_LOOK_S)
