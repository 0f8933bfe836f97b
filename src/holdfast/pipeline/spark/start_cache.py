"""What makes Spark start faster, prepared once in a cache folder: an unpacked home, and an archive of Java's classes.

    $XDG_CACHE_HOME/holdfast/spark/            HOLDFAST_SPARK_CACHE names another folder, or says `off`
      lock                                     held by the process that prepares
      4.3.0-java17.0.15-0.1.0-1f2e3d4c5b6a/    for one PySpark, Java and Holdfast, each where it is installed
        installation.json                      which ones these are; sizes and digests of the archives
        home/bin, home/jars, home/conf         links to the installed PySpark
        home/python/lib/pyspark.zip/pyspark    a folder in place of the zip; the same for py4j
        classes.jsa                            the classes that Spark loads, as Java maps them into memory
        refused                                or why there are none; tried again a day later

Every Python process of Spark imports PySpark from a zip, which holds no compiled modules: it compiles them each time.
And Java reads, checks and links ten thousand classes each time (ADR 0062 has the seconds).

1. Without it Spark starts more slowly, and that is all. What cannot be prepared is said once, and left.
2. Whatever has its name is whole: it is made under another name, synced and renamed. What a killed process left is
   removed by the next one that prepares.
3. Of two processes at once, one prepares, and the other starts with what is there.
4. What belongs to an installation that is gone, or was not used for a month, is removed, unless a process uses it.
5. Only a folder that no other user may write to, or replace, is used: programs are run from it.
6. Only what a session made is removed: its name is a digest of what it is marked with. The rest may be anybody's.
7. An archive that is not as it was made is not given to Java, which may die of it, at once or later.
8. A caller who names an archive or a log of Java, or has settings of Spark in files, has those.
"""

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.files.lock import FileLock
from holdfast.files.private import FOLDER_MODE, make_trusted_folder, user_name
from holdfast.files.replacement import replace_file, replace_json
from holdfast.pipeline.spark.class_archive import PART, QUIET_JAVA, ArchiveError, make_archives
from holdfast.pipeline.spark.installation import SparkInstallation, find_package, folder_name
from holdfast.pipeline.spark.java import cache_folder, java_home
from holdfast.pipeline.spark.log import LOGGER

#: The folder, or `off`.
VARIABLE: Final = "HOLDFAST_SPARK_CACHE"
OFF: Final = "off"
_PACKAGES: Final = ("pyspark", "py4j")
_HOME: Final = "home"
_REFUSED: Final = "refused"
_SETTINGS: Final = "conf"
_INSTALLATION: Final = "installation.json"
_OF: Final = "installation"
_ARCHIVES: Final = "archives"
#: Where a caller may name options of Java.
_OPTIONS: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
_ARCHIVE: Final = re.compile(r"-Xshare|-XX:(SharedArchiveFile|ArchiveClassesAtExit|.AutoCreateSharedArchive)")
_REFUSED_S: Final = 86_400
_UNUSED_S: Final = 30 * 86_400
#: The removal of a folder takes less.
_REMOVAL_S: Final = 10
_ATTEMPTS: Final = 3
#: Of a folder, or of one that is being made for it.
_KEY: Final = re.compile(r"([^/]+-java[^/]*-[^/]+-[0-9a-f]{12})(?:\.[0-9a-f]{12}\.part)?")

#: Receives what is done now, if that takes seconds.
Say = Callable[[str], None]
#: Folders of this process's sessions, locked so that no other process removes them.
_used: Final[dict[Path, FileLock]] = {}
_warned: Final[set[str]] = set()


class StartFiles(NamedTuple):
    """What there is for a start of Spark."""

    #: What SPARK_HOME has to be.
    home: Path | None = None
    #: What Java has to be given as its archives of classes.
    classes: tuple[Path, ...] = ()
    #: Whether the caller has said what Java logs, and where to.
    is_log_given: bool = False

    @property
    def java_options(self) -> str:
        """Options of Java, with which it is silent about an archive that does not fit."""
        if not self.classes:
            return ""
        quiet = "" if self.is_log_given else f" {QUIET_JAVA}"
        return f"-XX:SharedArchiveFile={':'.join(map(str, self.classes))}{quiet}"


def prepare_start(
    java: Path, say: Say, environment: Mapping[str, str] | None = None, *, java_options: str = ""
) -> StartFiles:
    """What there is for a Spark on this Java; what is missing is prepared.

    `java`: the JAVA_HOME of Spark. `java_options`: the caller's own; an archive or a log that they name wins.
    """
    environment = os.environ if environment is None else environment
    given = environment.get(VARIABLE, "")
    if given.lower() == OFF:
        return StartFiles()
    own = cache_folder(environment)
    if not given and own is None:
        _warn("a cache", "HOME is not set")
        return StartFiles()
    cache = Path(given).absolute() if given or own is None else own.absolute() / "spark"
    options = " ".join([java_options, *(environment.get(name, "") for name in _OPTIONS)])
    try:
        installation = SparkInstallation.find(java)
        is_archived = not _ARCHIVE.search(options) and not _is_configured(installation, environment)
        wanted = _Wanted(cache, installation, java, is_archived=is_archived)
        return _prepare(wanted, say, environment)._replace(is_log_given="-Xlog" in options)
    except OSError as error:
        _warn(f"its cache in {cache}", error.strerror or str(error))
        return StartFiles()


def set_aside(files: StartFiles) -> None:
    """Java ended when it started with these archives, and started without. They are made again: if they are damaged, by
    the next session, else a day later."""
    folder = files.classes[0].parent
    _warn(f"its cache in {folder.parent}", f"Java ended when it started with the archive in {folder}")
    is_damaged = not all(_is_intact(folder / name, row, digest=True) for name, row in _archive_rows(folder).items())
    with suppress(OSError):
        for path in files.classes:
            path.unlink(missing_ok=True)
        if not is_damaged:
            _refuse(folder, "Java ended when it started with it")


class _Wanted(NamedTuple):
    cache: Path
    installation: SparkInstallation
    #: The JAVA_HOME of Spark.
    java: Path
    #: Whether Java would use an archive.
    is_archived: bool

    @property
    def folder(self) -> Path:
        return self.cache / self.installation.key

    @property
    def is_complete(self) -> bool:
        if not _is_home(self.folder / _HOME):
            return False
        return not self.is_archived or bool(_archives(self.folder)) or _was_refused(self.folder)


def _prepare(wanted: _Wanted, say: Say, environment: Mapping[str, str]) -> StartFiles:
    cache = wanted.cache
    make_trusted_folder(cache)
    if not os.access(cache, os.R_OK | os.X_OK):
        advice = f"right would be: chmod -R a+rX {cache}"
        raise PermissionError(errno.EACCES, f"only user {user_name(cache.stat().st_uid)} may read it; {advice}")
    for _attempt in range(_ATTEMPTS):
        if not wanted.is_complete:
            if os.access(cache, os.W_OK):
                with FileLock(cache / "lock") as lock:
                    if lock.acquire(wait_s=0) and not wanted.is_complete:
                        _fill(wanted, say, environment)
            else:
                _warn(f"its cache in {cache}", f"it has no {wanted.folder.name}, and {_who_may_write(cache)}")
        if _protect(wanted.folder):
            return _use(wanted)
        # Another process removed it since.
    return StartFiles()


def _fill(wanted: _Wanted, say: Say, environment: Mapping[str, str]) -> None:
    """Requires: the lock."""
    _remove_stale(wanted.cache, wanted.installation)
    _lay_out_home(wanted.folder, wanted.installation)
    if not wanted.is_complete:
        version = wanted.installation.pyspark_version
        say(f"preparing Spark {version} for this machine: once for each version")
        _make_classes(wanted, environment)


def _is_configured(installation: SparkInstallation, environment: Mapping[str, str]) -> bool:
    """Whether there are settings of Spark in files. Java uses no archive with their folder in its class path."""
    if environment.get("SPARK_CONF_DIR"):
        return True
    with suppress(FileNotFoundError):
        return any((Path(installation.pyspark) / _SETTINGS).iterdir())
    return False


def _who_may_write(cache: Path) -> str:
    owner = cache.stat().st_uid
    return "is read-only" if owner == os.geteuid() else f"only user {user_name(owner)} may write to it"


def _is_home(home: Path) -> bool:
    """Its links lead nowhere when PySpark was removed."""
    return (home / "jars").exists() and (home / "bin").exists()


def _was_refused(folder: Path) -> bool:
    with suppress(OSError):
        return time.time() - (folder / _REFUSED).stat().st_mtime < _REFUSED_S
    return False


def _protect(folder: Path) -> bool:
    """Whether the folder is there, and no other process removes it before this one ends."""
    held = _used.pop(folder, None)
    if held is not None:
        if _is_at(held, folder):
            _used[folder] = held
            return True
        held.release()
    try:
        lock = FileLock(folder, create=False)
    except FileNotFoundError:
        return False
    if lock.acquire(shared=True, wait_s=_REMOVAL_S) and _is_at(lock, folder):
        _used[folder] = lock
        return True
    lock.release()
    return False


def _is_at(lock: FileLock, folder: Path) -> bool:
    """Whether it is this folder that is locked, and not one that was removed from its place."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock.descriptor), folder.stat())
    return False


def _use(wanted: _Wanted) -> StartFiles:
    """What is there, marked as used. Requires: `_protect`."""
    home = wanted.folder / _HOME
    if not _is_home(home):
        return StartFiles()
    with suppress(OSError):
        os.utime(wanted.folder)
    return StartFiles(home, _archives(wanted.folder) if wanted.is_archived else ())


# ---- the home


def _lay_out_home(folder: Path, installation: SparkInstallation) -> None:
    """A home that leads to the installed packages, and to nothing else: their compiled modules are used."""
    if _is_home(folder / _HOME):
        return
    with _remade(folder, installation) as part:
        home = part / _HOME
        zipped = home / "python" / "lib"
        pyspark = Path(installation.pyspark)
        for name in _PACKAGES:
            # The names under which Spark looks for them; that of py4j has its version in it.
            for found in (pyspark / "python" / "lib").glob(f"{name}*.zip"):
                (zipped / found.name).mkdir(parents=True)
                (zipped / found.name / name).symlink_to(find_package(name))
        # There may be no settings yet.
        for name in ("bin", "jars", _SETTINGS):
            (home / name).symlink_to(pyspark / name)


@contextmanager
def _remade(folder: Path, installation: SparkInstallation) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` when it is. OSError if there is something else."""
    part = folder.with_name(f"{folder.name}.{os.urandom(6).hex()}{PART}")
    part.mkdir(FOLDER_MODE)
    try:
        replace_json(part / _INSTALLATION, {_OF: asdict(installation)})
        yield part
        if (held := _used.pop(folder, None)) is not None:
            held.release()
        _remove(folder)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


# ---- the classes


def _make_classes(wanted: _Wanted, environment: Mapping[str, str]) -> None:
    """It ends with the archives, or with a note of why there are none."""
    folder = wanted.folder
    try:
        made = make_archives(folder, wanted.java, {**environment, VARIABLE: OFF, "SPARK_HOME": str(folder / _HOME)})
    except ArchiveError as error:
        with suppress(OSError):
            _refuse(folder, str(error))
        _warn(f"its cache in {wanted.cache}", f"Java's classes cannot be archived: {error}")
        return
    rows = {path.name: _row(path) for path in made}
    replace_json(folder / _INSTALLATION, {_OF: asdict(wanted.installation), _ARCHIVES: rows})


def _row(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        status = os.fstat(file.fileno())
    return {"bytes": status.st_size, "changed_s": int(status.st_mtime), "sha256": digest}


def _archives(folder: Path) -> tuple[Path, ...]:
    """What Java is given: all of them, or none."""
    rows = _archive_rows(folder)
    is_intact = all(_is_intact(folder / name, row) for name, row in rows.items())
    return tuple(folder / name for name in rows) if is_intact else ()


def _archive_rows(folder: Path) -> dict[str, Any]:
    """By their names, as they were made."""
    with suppress(OSError, ValueError, KeyError):
        rows: dict[str, Any] = json.loads((folder / _INSTALLATION).read_bytes())[_ARCHIVES]
        return rows
    return {}


def _is_intact(path: Path, row: Mapping[str, Any], *, digest: bool = False) -> bool:
    """Rule 7. The content is read where the time of change is another one, as after a copy, or with `digest`."""
    with suppress(OSError):
        status = path.stat()
        if status.st_size != row["bytes"]:
            return False
        if int(status.st_mtime) == row["changed_s"] and not digest:
            return True
        if _row(path)["sha256"] == row["sha256"]:
            with suppress(OSError):
                os.utime(path, (row["changed_s"],) * 2)
            return True
    return False


def _refuse(folder: Path, why: str) -> None:
    replace_file(folder / _REFUSED, why.encode(), sync=False)


# ---- what is not needed any more


def _remove_stale(cache: Path, ours: SparkInstallation) -> None:
    """Rules 2, 4 and 6. Requires: the lock."""
    for folder in cache.iterdir():
        if _KEY.fullmatch(folder.name) and folder.suffix == PART:
            # The process may have been killed before it marked it.
            with suppress(OSError):
                folder.rmdir()
            _remove(folder)
        elif folder.name != ours.key and _is_stale(folder):
            _remove(folder)


def _remove(folder: Path) -> None:
    """Unless it is in use, or not our own."""
    with suppress(OSError):
        if _installation_in(folder) is not None:
            with FileLock(folder, create=False) as lock:
                if lock.acquire(wait_s=0):
                    shutil.rmtree(folder, ignore_errors=True)


def _installation_in(folder: Path) -> dict[str, Any] | None:
    """For which a session made this folder; None if it was not made by a session. OSError if that cannot be read."""
    marked = _KEY.fullmatch(folder.name)
    if marked is None or folder.is_symlink():
        return None
    try:
        row = json.loads((folder / _INSTALLATION).read_bytes())[_OF]
        return row if isinstance(row, dict) and folder_name(row) == marked[1] else None
    except (ValueError, TypeError, KeyError):
        return None


def _is_stale(folder: Path) -> bool:
    try:
        row = _installation_in(folder)
        if row is None or time.time() - folder.stat().st_mtime > _UNUSED_S:
            return row is not None
        return not SparkInstallation(**row | {"stamps": tuple(row["stamps"])}).is_there
    except (OSError, TypeError, KeyError):
        # Of another version of Holdfast: it is removed when it was not used for a month.
        return False


def _warn(what: str, why: str) -> None:
    """Once in a process."""
    if why not in _warned:
        _warned.add(why)
        LOGGER.warning(
            "Spark starts more slowly, without %s: %s; %s names another folder, or says off", what, why, VARIABLE
        )


if __name__ == "__main__":
    prepare_start(java_home(), print)
