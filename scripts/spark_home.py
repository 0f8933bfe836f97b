"""Lay out a home for Spark in which its Python workers start faster: `… FOLDER`.

Every Python process of Spark imports PySpark from a zip, which holds no compiled modules, and so compiles half of it:
0.8 s each, and the first query of a session starts nine of them. Here a folder takes the place of the zip, which leads
to the installed packages and their compiled modules: 10 s instead of 14 for a session and its first query. Only those
two packages: nothing else that is installed may come before the tree under test.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

_PACKAGES = ("pyspark", "py4j")
_JAVA_SIDE = ("bin", "jars")


def lay_out(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    installed = {name: _folder(name) for name in _PACKAGES}
    zipped = home / "python" / "lib"
    for name, folder in installed.items():
        # The names under which Spark looks for them; that of py4j has its version in it.
        (found,) = (installed["pyspark"] / "python" / "lib").glob(f"{name}*.zip")
        (zipped / found.name).mkdir(parents=True)
        (zipped / found.name / name).symlink_to(folder)
    for name in _JAVA_SIDE:
        (home / name).symlink_to(installed["pyspark"] / name)


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"holdfast: {package} is not installed: make dev installs it")
    return Path(found.origin).parent


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
