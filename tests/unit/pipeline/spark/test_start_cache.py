"""What makes Spark start faster: prepared once, whole or not at all, and nothing depends on it.

Java's part is done by the test: what a real Java makes of it is in tests/spark/test_start.py.
"""

import logging
import shutil
import threading
from pathlib import Path

import pytest

from holdfast.files.lock import FileLock
from holdfast.pipeline.spark import installation, start_cache
from holdfast.pipeline.spark.installation import SparkInstallation
from holdfast.pipeline.spark.start_cache import VARIABLE, StartFiles, prepare_start
from tests.unit.pipeline.spark.cache_world import Archiving, names, prepare, pyspark_in

DEADLINE_S = 60
MONTH_S = 31 * 86_400


# ---- what there is


def test_the_home_leads_to_the_installed_packages_and_the_archive_is_beside_it(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    said: list[str] = []

    found = prepare(java, tmp_path / "cache", said)

    assert found.home is not None
    assert (found.home / "bin" / "spark-submit").is_file()
    assert (found.home / "jars").is_dir()
    assert (found.home / "python" / "lib" / "pyspark.zip" / "pyspark" / "version.py").is_file()
    (zipped,) = (found.home / "python" / "lib").glob("py4j-*-src.zip")
    assert names(zipped) == {"py4j"}
    assert [path.read_bytes() for path in found.classes] == [b"classes.jsa"]
    assert f"-XX:SharedArchiveFile={found.classes[0]} " in found.java_options
    assert len(said) == 1
    assert "once for each version" in said[0]
    assert archiving.runs == 1


def test_it_is_prepared_once(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    first = prepare(java, tmp_path / "cache")
    said: list[str] = []

    assert prepare(java, tmp_path / "cache", said) == first
    assert said == []
    assert archiving.runs == 1


@pytest.mark.parametrize("text", ["off", "OFF"])
def test_it_can_be_switched_off(java: Path, tmp_path: Path, archiving: Archiving, text: str) -> None:
    environment = {VARIABLE: text, "XDG_CACHE_HOME": str(tmp_path / "caches")}

    assert prepare_start(java, print, environment) == StartFiles()
    assert not (tmp_path / "caches").exists()
    assert archiving.runs == 0


def test_without_the_variable_it_lies_in_the_cache_of_the_user(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    found = prepare_start(java, print, {"XDG_CACHE_HOME": str(tmp_path)})

    assert found.home is not None
    assert found.home.is_relative_to(tmp_path / "holdfast" / "spark")
    assert archiving.runs == 1


# ---- what the caller has


LOG_OPTION = "-Xlog:gc*:file=/var/log/gc.log"


@pytest.mark.parametrize("variable", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "PYSPARK_SUBMIT_ARGS", None])
def test_a_log_of_java_that_the_caller_has_asked_for_is_left_on(
    java: Path, tmp_path: Path, archiving: Archiving, variable: str | None
) -> None:
    environment = {VARIABLE: str(tmp_path / "cache")} | ({variable: LOG_OPTION} if variable else {})

    found = prepare_start(java, print, environment, java_options="" if variable else LOG_OPTION)

    assert found.java_options == f"-XX:SharedArchiveFile={found.classes[0]}"
    assert "-Xlog:disable" in prepare(java, tmp_path / "cache").java_options
    assert archiving.runs == 1


@pytest.mark.parametrize(
    "option", ["-XX:SharedArchiveFile=mine.jsa", "-Xshare:off", "-XX:ArchiveClassesAtExit=mine.jsa"]
)
def test_an_archive_of_java_that_the_caller_names_is_the_one(
    java: Path, tmp_path: Path, archiving: Archiving, option: str
) -> None:
    found = prepare_start(java, print, {VARIABLE: str(tmp_path / "cache")}, java_options=f"-ea {option}")

    assert found.home is not None
    assert found.java_options == ""
    assert archiving.runs == 0


def test_settings_of_the_installed_spark_are_those_of_the_home_and_java_gets_no_archive(
    java: Path, tmp_path: Path, archiving: Archiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java uses none where a folder with files is in its class path."""
    packages = {"pyspark": pyspark_in(tmp_path / "pyspark"), "py4j": tmp_path / "py4j"}
    (packages["pyspark"] / "bin").mkdir()
    for module in (installation, start_cache):
        monkeypatch.setattr(module, "find_package", packages.__getitem__)
    before = prepare(java, tmp_path / "cache")
    assert before.home is not None
    assert before.classes
    (packages["pyspark"] / "conf").mkdir()
    assert prepare(java, tmp_path / "cache") == before
    (packages["pyspark"] / "conf" / "spark-defaults.conf").write_text("spark.eventLog.enabled true", encoding="utf-8")

    assert prepare(java, tmp_path / "cache") == StartFiles(before.home)

    assert (before.home / "conf" / "spark-defaults.conf").is_file()
    assert archiving.runs == 1


def test_with_a_folder_of_settings_nothing_is_prepared_that_java_would_not_use(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    environment = {VARIABLE: str(tmp_path / "cache"), "SPARK_CONF_DIR": str(tmp_path)}

    found = prepare_start(java, print, environment)

    assert found.home is not None
    assert found.classes == ()
    assert archiving.runs == 0


# ---- two at once, and what a killed process leaves


def test_of_two_at_once_one_prepares_and_the_other_starts_with_what_is_there(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def before() -> None:
        begun.set()
        assert goes_on.wait(DEADLINE_S)

    archiving.before = before
    found: list[StartFiles] = []
    first = threading.Thread(target=lambda: found.append(prepare(java, tmp_path / "cache")))
    first.start()
    assert begun.wait(DEADLINE_S)
    said: list[str] = []
    meanwhile = prepare(java, tmp_path / "cache", said)
    goes_on.set()
    first.join(DEADLINE_S)

    assert meanwhile.home is not None
    assert meanwhile.classes == ()
    assert meanwhile.java_options == ""
    assert said == []
    assert archiving.runs == 1
    assert prepare(java, tmp_path / "cache") == found[0]
    assert found[0].classes


def test_what_a_killed_process_left_is_removed_and_made_anew(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    cache = tmp_path / "cache"
    key = SparkInstallation.find(java).key
    home = prepare(java, cache).home
    assert home is not None
    # Killed while it laid out a home, and another one while Java wrote its archive.
    (cache / f"{key}.0123456789ab.part" / "home" / "python").mkdir(parents=True)
    shutil.copy(cache / key / "installation.json", cache / f"{key}.0123456789ab.part")
    (cache / key / "classes.jsa").rename(cache / key / "classes.jsa.part")

    found = prepare(java, cache)

    assert [path.read_bytes() for path in found.classes] == [b"classes.jsa"]
    assert names(cache) == {"lock", key}
    assert names(cache / key) == {"home", "installation.json", "classes.jsa"}
    assert archiving.runs == 2


def test_an_interrupt_leaves_nothing_that_looks_whole(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    archiving.error = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        prepare(java, tmp_path / "cache")

    assert names(tmp_path / "cache" / SparkInstallation.find(java).key) == {"home", "installation.json"}
    archiving.error = None
    assert prepare(java, tmp_path / "cache").classes


def test_a_home_whose_pyspark_is_gone_is_made_anew(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    home = prepare(java, tmp_path / "cache").home
    assert home is not None
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path / "gone")

    again = prepare(java, tmp_path / "cache").home

    assert again == home
    assert (home / "jars").is_dir()


# ---- a cache that another user prepared


# ---- what goes wrong


def test_a_folder_that_cannot_be_made_is_said_once_and_spark_starts_without(
    java: Path, tmp_path: Path, archiving: Archiving, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()

    assert prepare(java, tmp_path / "file" / "cache") == StartFiles()
    assert prepare(java, tmp_path / "file" / "cache") == StartFiles()

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert (
        f"without its cache in {tmp_path / 'file' / 'cache'}: {tmp_path / 'file'} is not a folder"
        in record.getMessage()
    )
    assert VARIABLE in record.getMessage()
    assert archiving.runs == 0


def test_a_cache_that_is_removed_just_then_is_made_anew(
    java: Path, tmp_path: Path, archiving: Archiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare(java, tmp_path / "cache")
    assert first.home is not None
    folder = first.home.parent
    monkeypatch.setattr(start_cache, "_used", {})
    removals = [folder]

    class Late(FileLock):
        """Another process removes the folder before this one has locked it."""

        def acquire(self, *, shared: bool = False, wait_s: float | None = None) -> bool:
            if shared and removals:
                shutil.rmtree(removals.pop())
            return super().acquire(shared=shared, wait_s=wait_s)

    monkeypatch.setattr(start_cache, "FileLock", Late)

    again = prepare(java, tmp_path / "cache")

    assert again == first
    assert (first.home / "bin" / "spark-submit").is_file()
    with FileLock(folder, create=False) as remover:
        assert not remover.acquire(wait_s=0)
    assert archiving.runs == 2
    for lock in start_cache._used.values():
        lock.release()


# ---- what is not needed any more
