"""Keep a file whose content changes exactly when a new wheel is due.

    python scripts/build_inputs.py .build/inputs

Make compares times, so it misses a deleted module and a changed compiler, and a checkout of another branch
confuses it. This file lists the digest of each input and the settings that steer the build; it is rewritten
only when it would differ, and the wheel depends on it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

FILES = ("pyproject.toml", "setup.py", "constraints.txt", "README.md", "LICENSE")
PACKAGES = ("holdfast", "pyspark_holdfast")
SETTINGS = ("HOLDFAST_BUILD", "CC", "CFLAGS", "LDFLAGS", "LDSHARED")


def inputs() -> list[Path]:
    """Every file that can end up in the wheel or decide what does."""
    found = (path for package in PACKAGES for path in Path("src", package).rglob("*"))
    # Python may be writing bytecode just now, under other names.
    sources = (path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return sorted([*sources, *(path for name in FILES if (path := Path(name)).exists())])


def compiler() -> str:
    """Where the compiler and the headers are, so that installing them is noticed."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return f"compiler {shutil.which(command[0]) if command else None}, headers {headers.exists()}"


def describe() -> str:
    """One line per input and setting."""
    lines = [f"python {sys.version}", compiler()]
    lines += [f"{name}={os.environ.get(name, '')}" for name in SETTINGS]
    lines += [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.as_posix()}" for path in inputs()]
    return "\n".join(lines) + "\n"


def main(target: Path) -> int:
    """Rewrite the target if what it describes has changed."""
    text = describe()
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
