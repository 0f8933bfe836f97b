"""The column families of one open database.

Every family has at least one table file: a repair knows a family by its tables, and throws away what the WAL holds
for others. So a family that has none gets a key, a flush, and loses the key again.
"""

import gc
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocksdict import ColumnFamily, Rdict

from holdfast.model.errors import MisuseError
from holdfast.storage.rocks.engine.options import (
    DEFAULT,
    LASTING_FAMILIES,
    LASTING_SETTINGS,
    SharedOptions,
    family_options,
)

_ANCHOR_KEY: Final = b"\xff\xff\xff\xffanchor"


class FamilyHandles:
    """Requires: `close` before the database is opened again, and no iterator that outlives it."""

    def __init__(self, path: Path, database: Rdict, shared: SharedOptions) -> None:
        self._shared: Final = shared
        self._database: Final = database
        self._readers: Final[dict[str, Rdict]] = {}
        #: For batches. Read only: a write looks a family up here for every batch.
        self.handles: Final[dict[str, ColumnFamily]] = {}
        for name in sorted({*Rdict.list_cf(str(path)), DEFAULT}):
            self._adopt(name)
        for name, family in self._readers.items():
            if family.get(_ANCHOR_KEY) is not None:
                family.delete(_ANCHOR_KEY)
            if not family.property_int_value("rocksdb.total-sst-files-size"):
                self._anchor(name)

    def names(self) -> list[str]:
        """Without RocksDB's own default one."""
        return sorted(name for name in self._readers if name != DEFAULT)

    def reader(self, name: str) -> Rdict:
        try:
            return self._readers[name]
        except KeyError:
            raise MisuseError(f"there is no column family {name!r}; create it first") from None

    def create(self, name: str) -> None:
        """Survives: a power loss, at once."""
        if name in self._readers:
            raise MisuseError(f"column family {name!r} exists already")
        self._database.create_column_family(name, family_options(name, self._shared))
        self._adopt(name)
        self._anchor(name)

    def drop(self, name: str) -> None:
        """Its files go when the last reader has let go of it."""
        if name not in self._readers or name == DEFAULT:
            raise MisuseError(f"there is no column family {name!r} to drop")
        try:
            self._database.drop_column_family(name)
        except Exception as error:
            # Dropped all the same: the OPTIONS file, which comes last, is for people.
            if "Unable to persist options" not in str(error):
                raise
        del self._readers[name], self.handles[name]

    def flush(self) -> None:
        for name, family in list(self._readers.items()):
            try:
                family.flush()
            except Exception:
                # Dropped meanwhile by the engine's own thread: then there is nothing to flush.
                if name in self._readers:
                    raise

    def close(self) -> None:
        """Closes every handle, the database's own too. RocksDB itself ends with the last iterator."""
        self.handles.clear()
        # Closing tries to flush, which fails on a full disk; what it would flush is in the WAL.
        for family in self._readers.values():
            with suppress(Exception):
                family.close()
        self._readers.clear()
        with suppress(Exception):
            self._database.close()
        gc.collect()

    def _adopt(self, name: str) -> None:
        self._readers[name] = self._database.get_column_family(name)
        self.handles[name] = self._database.get_column_family_handle(name)
        if name in LASTING_FAMILIES:
            # RocksDB stores such settings for people to read; without room for that it has none of it.
            with suppress(Exception):
                self._readers[name].set_options(LASTING_SETTINGS)

    def _anchor(self, name: str) -> None:
        family = self._readers[name]
        family.put(_ANCHOR_KEY, b"")
        family.flush()
        family.delete(_ANCHOR_KEY)
