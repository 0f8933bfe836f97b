"""Compiles the loops of the benchmark together with the pure packages, as one group.

mypyc calls directly only inside a group. A module compiled by itself calls the classes of another group
through the interpreter's protocol and gains next to nothing, so a copy of the sources is compiled with it:

    .build/bench/tree/holdfast/…    the pure packages, compiled, and the rest as it is
    .build/bench/tree/bench/…       this package, with a compiled hot_loop

The tree is kept until a source changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

_GROUP = "holdfast_bench"
_LOOPS = "bench/codec/hot_loop.py"
_STAMP = "digest"


def log_path(root: Path) -> Path:
    return root / ".build" / "bench" / "build.log"


def build(root: Path) -> Path:
    """The tree with the compiled group; CalledProcessError if it does not compile."""
    tree = root / ".build" / "bench" / "tree"
    stamp = tree / _STAMP
    wanted = digest(root)
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / "src" / "holdfast", tree / "holdfast", ignore=skip)
    shutil.copytree(root / "bench", tree / "bench", ignore=skip)
    shutil.copy(root / "pyproject.toml", tree / "names.toml")
    with log_path(root).open("w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-m", "bench.codec.group_build"],
            cwd=tree,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=True,
        )
    stamp.write_text(wanted, encoding="ascii")
    return tree


def digest(root: Path) -> str:
    """Changes whenever the tree has to be built again."""
    found = hashlib.sha256(sys.version.encode())
    for folder in (root / "src" / "holdfast", root / "bench" / "codec"):
        for path in sorted(folder.rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def compile_here() -> None:
    """Compile the group in the current folder, beside its sources."""
    from mypyc.build import mypycify  # tools for building, which a run without this column can do without
    from setuptools import setup

    project = tomllib.loads(Path("names.toml").read_text(encoding="utf-8"))
    sources = [
        path.as_posix()
        for package in project["tool"]["holdfast"]["pure-packages"]
        for path in sorted(Path("holdfast", package).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    extensions = mypycify([*sources, _LOOPS], group_name=_GROUP, opt_level="3", target_dir="c")
    setup(name=_GROUP, packages=[], ext_modules=extensions, script_args=["build_ext", "--inplace"])


if __name__ == "__main__":
    compile_here()
