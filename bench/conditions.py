"""Under which conditions something was measured, in words, for the notes below a table."""

from __future__ import annotations

import os

from holdfast.topics import matcher


def describe(rounds: int, load_before: float) -> list[str]:
    modules = "Interpreted" if (matcher.__file__ or "").endswith(".py") else "Compiled"
    return [
        f"{modules} modules, {'one round' if rounds == 1 else f'medians of {rounds} rounds'}.",
        f"Load of the machine before it began: {load_before:.1f} on {os.cpu_count()} processors.",
    ]
