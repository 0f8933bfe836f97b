"""The broker's database, opened read-only beside the broker as a RocksDB secondary.

A secondary follows the primary only when `catch_up` is called, so that reads between two calls see one state. It cannot
follow five things, and in each case it is replaced by a new secondary:

1. A column family that was made after it was opened: every catch-up fails from then on. One that is made while it is
   being opened is worse: it shows what refers to the family, and does not have it. So families are listed afterwards,
   too: they are made before anything refers to them.
2. A column family that was dropped: it still shows the family, and keeps its disk space.
3. A file that the primary removed after the list of files was read and before the file was opened.
4. A restart of the primary: it has written its WAL into tables, and has another MANIFEST.
5. Another database in its place, as that of a node that was installed from another one: its files have the same names.

It never reads while the primary is being opened (`open_lock.py`). An open file stays readable when the primary removes
it, so all files are opened at once and kept open.
"""

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocksdict import AccessType, Options, Rdict

from holdfast.model.errors import MisuseError, PermanentError, TransientError
from holdfast.storage.rocks.engine.open_lock import lock_to_look

ROCKS: Final = "rocks"
#: Of the folders for RocksDB's own log files; the process id follows.
_PREFIX: Final = "holdfast-secondary-"
#: Attempts to open, because files may be removed meanwhile.
_TRIES: Final = 20
#: Tries that follow at once. Then the primary may be in the middle of a change, on a machine that has no time for it.
_QUICK_TRIES: Final = 5
_PAUSE_S: Final = 0.1


class Secondary:
    """Requires: `close`. Otherwise its folder is left until another process removes it."""

    def __init__(self, folder: Path) -> None:
        """PermanentError if the folder has no database."""
        self._folder: Final = folder
        self._path: Final = str(folder / ROCKS)
        if not (folder / ROCKS / "CURRENT").is_file():
            raise PermanentError(f"{folder} holds no data of a broker; give the folder that `storage.data` names")
        _sweep()
        self._own: Final = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
        self._number = 0
        self._names: list[str] = []
        #: The MANIFEST that it follows.
        self._current = b""
        #: Another number for each database that was in the folder.
        self.database = 0
        self._families: dict[str, Rdict] = {}
        self._database: Rdict | None = None
        try:
            with lock_to_look(folder):
                self._open()
        except BaseException:
            self.close()
            raise

    def catch_up(self) -> bool:
        """Follow the primary; whether older families and iterators are invalid."""
        if self._database is None:
            raise MisuseError("this secondary is closed")
        with lock_to_look(self._folder):
            if self._list() == (self._names, self._current, self.database):
                try:
                    self._database.try_catch_up_with_primary()
                except Exception:
                    pass  # rule 3, or a family was made just now
                else:
                    if self._list() == (self._names, self._current, self.database):
                        return False
            self._open()
        return True

    def names(self) -> list[str]:
        """The column families, as of the last opening."""
        return list(self._names)

    def family(self, name: str) -> Rdict:
        """For reading. Invalid after a `catch_up` that returns True."""
        found = self._families.get(name)
        if found is None:
            if self._database is None or name not in self._names:
                raise MisuseError(f"there is no column family {name!r}")
            found = self._families[name] = self._database.get_column_family(name)
        return found

    def close(self) -> None:
        self._let_go()
        shutil.rmtree(self._own, ignore_errors=True)

    def _list(self) -> tuple[list[str], bytes, int]:
        """The column families, the name of the primary's MANIFEST, and the number of the database."""
        try:
            path = Path(self._path)
            return sorted(Rdict.list_cf(self._path)), (path / "CURRENT").read_bytes(), path.stat().st_ino
        except Exception as error:
            raise TransientError(f"{self._path} cannot be read now: {error}") from error

    def _open(self) -> None:
        failure: Exception | None = None
        self._let_go()
        for attempt in range(_TRIES):
            if attempt >= _QUICK_TRIES:
                time.sleep(_PAUSE_S)
            # A new folder each time: RocksDB's log file of the last one may still be open.
            self._number += 1
            own = Path(self._own) / str(self._number)
            try:
                names, current, number = self._list()
                database = Rdict(
                    self._path,
                    options=_options(),
                    column_families={name: _options() for name in names},
                    access_type=AccessType.secondary(str(own)),
                )
                self._database = database
                database.try_catch_up_with_primary()
                if self._list() != (names, current, number):
                    raise TransientError("a column family was made or dropped meanwhile")
            except Exception as error:
                failure = error
                self._let_go()
                continue
            self._names, self._current, self.database = names, current, number
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
    # RocksDB starts these for each family at each catch-up, whether there are new files or not: with its 16, a catch-up
    # with 100 families took 60 ms, now 1.5 ms. Opening 1,000 files of a local disk takes as long as before.
    options.set_max_file_opening_threads(1)
    # A scan reads each block once; the page cache is enough.
    return options


def _sweep() -> None:
    """Remove the folders of killed processes: Spark kills its workers."""
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
