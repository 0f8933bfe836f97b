"""The PySpark and the Java that are installed, by what changes when one of them is replaced."""

import errno
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import holdfast
from holdfast.pipeline.spark.java import original_java


@dataclass(frozen=True)
class SparkInstallation:
    """A PySpark and a Java, and what changes when one of them is replaced."""

    pyspark: str
    pyspark_version: str
    #: The home of the Java that runs, behind any wrapper.
    java: str
    java_version: str
    holdfast_version: str
    #: Time of change and size of files. Times are in whole seconds: the layers of an image have no others.
    stamps: tuple[str, ...]

    @classmethod
    def find(cls, java: Path, pyspark: Path | None = None) -> "SparkInstallation":
        """OSError if one of them is not there."""
        java, pyspark = original_java(java), pyspark or find_package("pyspark")
        files = [pyspark / "version.py", java / "bin" / "java"]
        library = java / "lib" / "server" / "libjvm.so"
        stamps = [
            _stamp_folder(pyspark / "jars"),
            *map(_stamp, files),
            *([_stamp(library)] if library.exists() else []),
        ]
        return cls(str(pyspark), spark_version(), str(java), _java_release(java), holdfast.__version__, tuple(stamps))

    @property
    def key(self) -> str:
        """The name of its folder."""
        return folder_name(asdict(self))

    @property
    def is_there(self) -> bool:
        """Whether it is still what is installed at these places."""
        try:
            found = SparkInstallation.find(Path(self.java), Path(self.pyspark))
        except OSError:
            return False
        return (found.java_version, found.stamps) == (self.java_version, self.stamps)


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{int(status.st_mtime)}+{status.st_size}"


def _stamp_folder(folder: Path) -> str:
    """Of the files in it: the size of a folder depends on the file system."""
    digest = sha256()
    for file in sorted(folder.iterdir()):
        digest.update(f"{file.name}/{_stamp(file)}/".encode())
    return digest.hexdigest()[:16]


def folder_name(row: Mapping[str, object]) -> str:
    """The name of the folder for an installation of any version of Holdfast. KeyError if `row` describes none."""
    digest = sha256(json.dumps(row).encode()).hexdigest()[:12]
    return f"{row['pyspark_version']}-java{row['java_version']}-{row['holdfast_version']}-{digest}"


def find_package(name: str) -> Path:
    found = find_spec(name)
    if found is None or found.origin is None:
        raise FileNotFoundError(errno.ENOENT, f"{name} is not installed")
    return Path(found.origin).parent


def spark_version() -> str:
    """Of the installed PySpark, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "unknown"


def _java_release(java: Path) -> str:
    """As its file `release` has it."""
    with suppress(OSError):
        for line in (java / "release").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name == "JAVA_VERSION":
                return value.strip('"')
    return "unknown"
