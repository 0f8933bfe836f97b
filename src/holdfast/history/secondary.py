"""The broker's database, opened beside the broker: as RocksDB's secondary, for reading only.

A secondary follows what the primary writes, as often as it is told to. It is told by `catch_up`, and by nobody else, so
whoever reads between two calls reads one state. Four things it cannot follow, and all end the same way, with a fresh
secondary in place of the old one:

1. A column family that was made after it was opened: every catch-up fails from then on.
2. A column family that was dropped: it goes on showing it, and keeps its disk space.
3. A file that the primary removed between the look at the list of files and the opening of the file.
4. A primary that was started anew: it has read its WAL into tables, and writes another list of files.

It never looks while the primary is being opened (`opening_lock.py`). Files that it has open stay readable when the
primary removes them. So all are opened at once, and held.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocksdict import AccessType, Options, Rdict

from holdfast.model.errors import MisuseError, PermanentError, TransientError
from holdfast.storage.rocks.opening_lock import looking

ROCKS: Final = "rocks"
#: Of folders with diaries; the number of the process follows.
_PREFIX: Final = "holdfast-secondary-"
#: Openings that may fail because files come and go.
_TRIES: Final = 20


class Secondary:
    """Requires: `close`, or the folder with its diary stays until the process has ended and another one comes."""

    def __init__(self, folder: Path) -> None:
        """PermanentError if the folder holds no database."""
        self._folder: Final = folder
        self._path: Final = str(folder / ROCKS)
        if not (folder / ROCKS / "CURRENT").is_file():
            raise PermanentError(f"{folder} holds no data of a broker; give the folder that `storage.data` names")
        _sweep()
        self._own: Final = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        self._number = 0
        self._names: list[str] = []
        #: Which list of files it follows.
        self._current = b""
        self._families: dict[str, Rdict] = {}
        self._database: Rdict | None = None
        try:
            with looking(folder):
                self._open()
        except BaseException:
            self.close()
            raise

    def catch_up(self) -> bool:
        """See what the primary has written until now; whether families and iterators of before are void."""
        if self._database is None:
            raise MisuseError("this secondary is closed")
        with looking(self._folder):
            if self._list() == self._names and self._list_of_files() == self._current:
                try:
                    self._database.try_catch_up_with_primary()
                except Exception:
                    pass  # rule 3, or a family came just now
                else:
                    return False
            self._open()
        return True

    def names(self) -> list[str]:
        """The column families, as of the last opening."""
        return list(self._names)

    def family(self, name: str) -> Rdict:
        """For reading. Void after a `catch_up` that says so."""
        found = self._families.get(name)
        if found is None:
            if self._database is None or name not in self._names:
                raise MisuseError(f"there is no column family {name!r}")
            found = self._families[name] = self._database.get_column_family(name)
        return found

    def close(self) -> None:
        self._let_go()
        shutil.rmtree(self._own, ignore_errors=True)

    def _list(self) -> list[str]:
        try:
            return sorted(Rdict.list_cf(self._path))
        except Exception as error:
            raise TransientError(f"{self._path} cannot be read now: {error}") from error

    def _list_of_files(self) -> bytes:
        """The name of the primary's list of files."""
        try:
            return (Path(self._path) / "CURRENT").read_bytes()
        except OSError as error:
            raise TransientError(f"{self._path} cannot be read now: {error}") from error

    def _open(self) -> None:
        failure: Exception | None = None
        self._let_go()
        for _try in range(_TRIES):
            # A folder of its own each time: RocksDB's diary of the last one may still be open.
            self._number += 1
            own = Path(self._own) / str(self._number)
            try:
                names, current = self._list(), self._list_of_files()
                database = Rdict(
                    self._path,
                    options=_options(),
                    column_families={name: _options() for name in names},
                    access_type=AccessType.secondary(str(own)),
                )
                self._database = database
                database.try_catch_up_with_primary()
            except Exception as error:
                failure = error
                self._let_go()
                continue
            self._names, self._current = names, current
            return
        raise TransientError(f"{self._path} cannot be opened for reading: {failure}") from failure

    def _let_go(self) -> None:
        for family in self._families.values():
            family.close()
        self._families = {}
        if self._database is not None:
            self._database.close()
            self._database = None
        shutil.rmtree(Path(self._own) / str(self._number), ignore_errors=True)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_max_open_files(-1)
    options.set_keep_log_file_num(1)
    # A scan reads each block once; what it needs again is the page cache's.
    return options


def _sweep() -> None:
    """Remove the folders of processes that were killed: Spark ends its workers that way."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        number = left.name[len(_PREFIX) :].partition("-")[0]
        if number.isdigit() and not _runs(int(number)):
            shutil.rmtree(left, ignore_errors=True)


def _runs(process: int) -> bool:
    with suppress(PermissionError, OverflowError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True
