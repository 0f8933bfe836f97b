"""An archive of the classes that Spark loads, which Java writes at the end of a Spark that runs for it alone.

The program that this runs is `class_archive_program`. Whatever has its name is whole: it is made under another name,
synced and renamed.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import holdfast
from holdfast.files.replacement import sync_path
from holdfast.pipeline.spark.java import original_java

CLASSES: Final = "classes.jsa"
#: The classes of Java itself, where the Java that is installed has no archive of them.
BASE: Final = "java.jsa"
PART: Final = ".part"
#: Java's own warnings are about archives; its errors stay.
QUIET_JAVA: Final = "-Xlog:disable -Xlog:all=error:stderr"
#: The archive takes 200 MB.
_ROOM_BYTES: Final = 300 << 20
#: It takes a quarter of a minute on two processors that have nothing else to do, and minutes where they have.
_PATIENCE_S: Final = 600
_ERROR: Final = re.compile(r"[\w.]*(Error|Exception)\b|Unrecognized |Could not ")
#: They change the class path of Java or the session: the archive is made without them.
_FOREIGN: Final = (
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "YARN_CONF_DIR",
)


class ArchiveError(Exception):
    """There is no archive, and the text says why."""


def make_archives(folder: Path, java: Path, environment: Mapping[str, str]) -> list[Path]:
    """Make CLASSES in `folder`, after BASE if this Java needs it. `java`: the JAVA_HOME of Spark. Requires: a lock."""
    own = {name: text for name, text in environment.items() if name not in _FOREIGN} | {
        "JAVA_HOME": str(java),
        "PYTHONPATH": os.pathsep.join(_python_path(environment)),
    }
    for left in folder.glob(f"*{PART}"):
        left.unlink(missing_ok=True)
    try:
        _check_room(folder)
        bases = []
        if not (original_java(java) / "lib" / "server" / "classes.jsa").exists():
            _make(folder / BASE, [], own)
            bases.append(folder / BASE)
        _make(folder / CLASSES, bases, own)
        return [*bases, folder / CLASSES]
    except (OSError, subprocess.SubprocessError) as error:
        raise ArchiveError(_last_words(error)) from error


def _make(path: Path, bases: list[Path], environment: Mapping[str, str]) -> None:
    # The program of a command that was killed a moment ago may still write to its own.
    part = path.with_name(f"{path.name}.{os.urandom(6).hex()}{PART}")
    program = [sys.executable, "-m", "holdfast.pipeline.spark.class_archive_program"]
    try:
        _run([*program, path.name, str(part), *map(str, bases)], environment)
        # Java does not check all of an archive before it uses it.
        sync_path(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _check_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _ROOM_BYTES:
        raise OSError(errno.ENOSPC, f"there is no room: {free >> 20} MB are free, {_ROOM_BYTES >> 20} MB are needed")


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    """Run the program to its end, and that of the Java that it starts: both hold its output open.

    It ends with this process, too, however that is killed: its standard input is closed then.
    """
    standard_input, held = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        os.close(standard_input)
        standard_input = -1
        try:
            said, _none = process.communicate(timeout=_PATIENCE_S)
        except BaseException:
            # Java in a separate session would stay.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    finally:
        if standard_input >= 0:
            os.close(standard_input)
        os.close(held)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, said)


def _python_path(environment: Mapping[str, str]) -> list[str]:
    """The program comes from the same Holdfast as this."""
    given = environment.get("PYTHONPATH", "")
    return [str(Path(holdfast.__file__).parents[1]), *([given] if given else [])]


def _last_words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "Java wrote none"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    said = getattr(error, "output", None) or ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)]
    return (named or lines or [str(error)])[-1][:500]
