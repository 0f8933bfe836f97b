"""What a benchmark leaves behind: its values as JSON, with the machine they are from, and its picture."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path


def write_reports(folder: Path, name: str, values: dict[str, object], notes: list[str], picture: str) -> None:
    """`bench-NAME.json` and `bench-NAME.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "notes": notes,
        **values,
    }
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (folder / f"bench-{name}.json").write_text(text, encoding="utf-8")
    (folder / f"bench-{name}.svg").write_text(picture, encoding="utf-8")
