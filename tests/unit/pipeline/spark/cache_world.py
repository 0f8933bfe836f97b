"""A Java and a PySpark that only look like one, and what stands for the Spark that has Java write its archive."""

from collections.abc import Callable
from pathlib import Path

from holdfast.pipeline.spark.start_cache import VARIABLE, StartFiles, prepare_start


def java_in(home: Path) -> Path:
    """Looks like an installed Java, with an archive of its own classes."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(0o755)
    (home / "release").write_text('JAVA_VERSION="17.0.99"\n', encoding="utf-8")
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "libjvm.so").touch()
    (home / "lib" / "server" / "classes.jsa").touch()
    return home


def pyspark_in(folder: Path) -> Path:
    """Looks like an installed PySpark."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "spark-core.jar").write_bytes(b"core")
    (folder / "python" / "lib").mkdir(parents=True)
    (folder / "python" / "lib" / "pyspark.zip").touch()
    (folder / "version.py").touch()
    return folder


class Archiving:
    """In place of the Spark that has Java write its archive."""

    def __init__(self) -> None:
        self.runs = 0
        self.error: BaseException | None = None
        self.before: Callable[[], None] = lambda: None
        self.parts: list[Path] = []

    def __call__(self, command: list[str], environment: dict[str, str]) -> None:
        assert environment[VARIABLE] == "off", "it would prepare itself"
        self.runs += 1
        self.before()
        if self.error is not None:
            raise self.error
        kind, part, *_bases = command[3:]
        self.parts.append(Path(part))
        self.parts[-1].write_bytes(kind.encode())


def prepare(java: Path, cache: Path, said: list[str] | None = None) -> StartFiles:
    return prepare_start(java, ([] if said is None else said).append, {VARIABLE: str(cache)})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
