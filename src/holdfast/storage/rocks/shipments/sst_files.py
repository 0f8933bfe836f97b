"""Writes SST files, RocksDB's sorted tables, for a shipment (`shipment.py`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocksdict import SstFileWriter

from holdfast.files.replacement import sync_path
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.engine.options import SharedOptions, family_options

#: A table ends with the key that goes beyond this.
TABLE_BYTES: Final = 64 << 20
#: Keys between two looks at a table's size.
_STEP: Final = 4_096


@dataclass(frozen=True)
class SstFile:
    """A table that was written."""

    name: str
    keys: int
    size_bytes: int


class SstWriter:
    """Writes keys that come in their order into tables `<prefix>-<n>.sst` of a folder.

    Survives: a power loss, once `close` has returned; the folder is the caller's to sync.
    """

    def __init__(self, folder: Path, prefix: str, table_bytes: int = TABLE_BYTES) -> None:
        self._folder: Final = folder
        self._prefix: Final = prefix
        self._table_bytes: Final = table_bytes
        self._options: Final = family_options("log-", SharedOptions())
        self._writer: SstFileWriter | None = None
        self._path = folder
        self._keys = 0
        self.tables: Final[list[SstFile]] = []

    def write(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """PermanentError if a key does not come behind the one before."""
        try:
            for key, value in pairs:
                if self._writer is None:
                    self._begin()
                assert self._writer is not None
                self._writer[key] = value
                self._keys += 1
                if self._keys % _STEP == 0 and self._writer.file_size() >= self._table_bytes:
                    self._end()
        except OSError as error:
            raise PermanentError(f"{self._path} cannot be written: {error}") from error
        except Exception as error:
            if isinstance(error, PermanentError):
                raise
            raise PermanentError(f"{self._path} cannot be written: {error}") from error

    def close(self) -> list[SstFile]:
        """Everything that was written."""
        if self._writer is not None:
            self._end()
        return self.tables

    def _begin(self) -> None:
        self._path = self._folder / f"{self._prefix}-{len(self.tables):04d}.sst"
        self._writer = SstFileWriter(self._options)
        self._writer.open(str(self._path))
        self._keys = 0

    def _end(self) -> None:
        assert self._writer is not None
        self._writer.finish()
        self._writer = None
        sync_path(self._path)
        self.tables.append(SstFile(self._path.name, self._keys, self._path.stat().st_size))
