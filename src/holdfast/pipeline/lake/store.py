"""Stores of lakes: a folder, or objects behind an address. The only module that knows what a store is.

    driver      store.table()          Delta's own transactions, with the options of the store
    executors   store.create(path)     Parquet files; `delta_files.py` writes them
    readers     store.parquet(path)    the same files

A store travels to Spark's workers with its options: they need no environment and no settings file. `deltalake` asks the
store in all of this, so there is one set of options, one way of asking again, and one kind of error.

1. Credentials are in no text: neither in `repr`, which plans and logs show, nor in an error, from which they are
   taken out before it is raised.
2. An error says which store it was. A place that is not there and credentials that are refused are SettingsErrors: no
   retry helps, and the text says what to set.
3. A file of a store appears as a whole, when it is closed; one that is not closed never does.
"""

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from holdfast.files.replacement import sync_path
from holdfast.model.errors import HoldfastError, SettingsError
from holdfast.pipeline.lake.store_options import CREDENTIALS, SETTINGS, StoreOptions, parse_address, read_options

#: What `deltalake` and Arrow raise.
STORE_ERRORS: Final = (DeltaError, OSError, pa.ArrowException)
_NO_PLACE: Final = re.compile(r"NoSuchBucket|bucket does not exist|ContainerNotFound|container does not exist", re.I)
_REFUSED: Final = re.compile(
    r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidClientTokenId|AccessDenied|AuthenticationFailed|"
    r"AuthorizationFailure|Forbidden|Unauthorized|status: 40[13]|credential|PermissionDenied",
    re.I,
)
#: Colours, and the marks of causes.
_DRESSING: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
_HIDDEN: Final = "***"
#: Objects that are removed at the same time: each is a request.
_REMOVALS: Final = 16

#: Where a lake lies, as callers may say it.
LakeAddress: TypeAlias = "str | Path | LakeStore"


class NewFile(Protocol):
    """A file that is being written."""

    def write(self, data: Any) -> int: ...

    def finish(self) -> int:
        """Have it whole in the store; its bytes."""

    def abandon(self) -> None:
        """Have it nowhere."""


class ListedFile(NamedTuple):
    path: str
    modified_s: float


@dataclass(frozen=True)
class LakeStore:
    #: As it is shown.
    address: str
    #: Empty for a folder.
    kind: str = ""
    place: str = ""
    options: StoreOptions = field(default=StoreOptions({}, ()), repr=False)

    @classmethod
    def at(cls, where: LakeAddress, settings: Path | None = None) -> "LakeStore":
        """SettingsError if the address or the options are wrong. Nothing is asked of the store."""
        if isinstance(where, LakeStore):
            return where
        address = parse_address(str(where))
        if address.kind == "iceberg":
            raise SettingsError(
                f"the lake {address.text} is an Iceberg table, and this works on Delta lakes; name a folder or a store "
                f"with one"
            )
        return cls(*address, read_options(address.kind, settings)) if address.kind else cls(*address)

    def __str__(self) -> str:
        return self.address

    @property
    def folder(self) -> Path | None:
        """None if it is a store of objects."""
        return None if self.kind else Path(self.address)

    def sub(self, path: str) -> "LakeStore":
        """A part of it, as a store."""
        return replace(self, address=f"{self.address}/{path}")

    # ---- Delta

    @property
    def delta_options(self) -> dict[str, str] | None:
        return dict(self.options.values) if self.kind else None

    def table(self) -> DeltaTable:
        """The newest version of the table. Raises what Delta raises."""
        return DeltaTable(self.address, storage_options=self.delta_options)

    def has_table(self) -> bool:
        return DeltaTable.is_deltatable(self.address, self.delta_options)

    # ---- files

    def location(self, path: str) -> str:
        """Of a file, as Delta and Spark name it."""
        return f"{self.address}/{path}"

    def create(self, path: str) -> NewFile:
        """Requires: a name that was never used."""
        return _ObjectFile(self.files(), path) if self.kind else _FolderFile(Path(self.address) / path)

    def sync(self, paths: Iterable[str]) -> None:
        """Have the names of finished files survive a power loss: a store of objects has seen to it."""
        if self.folder is None:
            return
        whole = [self.folder / path for path in paths]
        folders = {folder for path in whole for folder in path.parents if folder.is_relative_to(self.folder)}
        for folder in sorted(folders, reverse=True):  # a folder behind those in it
            sync_path(folder)

    def parquet(self, path: str) -> Any:
        """A Parquet file, to be read; a context manager."""
        where = self.files().open_input_file(path) if self.kind else str(Path(self.address) / path)
        return pq.ParquetFile(where, pre_buffer=bool(self.kind))

    def list_paths(self, under: str = "") -> list[str]:
        """Of all files in a part of it, in any order."""
        if self.folder is not None:
            root = self.folder / under
            return [str(path.relative_to(self.folder)) for path in root.rglob("*") if path.is_file()]
        chosen = fs.FileSelector(under, allow_not_found=True, recursive=True)
        return [found.path for found in self.files().get_file_info(chosen) if found.is_file]

    def iter_data_files(self) -> Iterator[ListedFile]:
        """All Parquet files that readers of a table may see, in any order.

        Of a store of objects, those of one folder, such as a day, are held in memory; of a folder, none.
        """
        found = _iter_folder(Path(self.address), "") if self.folder is not None else _iter_objects(self.files())
        return (file for file in found if file.path.endswith(".parquet"))

    def remove(self, paths: Iterable[str]) -> None:
        """One that is not there is as good as removed."""
        if self.folder is not None:
            for path in paths:
                (self.folder / path).unlink(missing_ok=True)
            return
        files = self.files()

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                files.delete_file(path)

        with ThreadPoolExecutor(_REMOVALS) as pool:
            for _done in pool.map(remove, paths):
                pass

    def put(self, path: str, content: bytes) -> None:
        """Replace a small file. Requires: a store of objects."""
        file = self.create(path)
        file.write(content)
        file.finish()

    def get(self, path: str) -> bytes | None:
        """A small file; None if it is not there."""
        try:
            if self.folder is not None:
                return (self.folder / path).read_bytes()
            with self.files().open_input_file(path) as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def files(self) -> Any:
        """As Arrow has them. Requires: a store of objects."""
        return _open_files(self.address, tuple(sorted(self.options.values.items())))

    # ---- errors

    @contextmanager
    def errors(self, family: type[HoldfastError], text: str) -> Iterator[None]:
        """What the store raises in the block becomes an error of this family, or a SettingsError."""
        try:
            yield
        except STORE_ERRORS as error:
            # The cause of an error is printed with it, too.
            raise self.translate(error, family, text) from (None if self.options.secrets else error)

    def translate(self, error: BaseException, family: type[HoldfastError], text: str) -> HoldfastError:
        said = self.describe(error)
        if self.kind and _NO_PLACE.search(said):
            return SettingsError(f"{text}: there is no {self.place} in the store; make it first, or name another lake")
        if self.kind and _REFUSED.search(said):
            return SettingsError(
                f"{text}: the store refuses what it was shown: {said}; set {CREDENTIALS[self.kind]}, or write them "
                f"into a settings file that {SETTINGS} names"
            )
        return family(f"{text}: {said}")

    def describe(self, error: BaseException) -> str:
        """An error in one line, without credentials."""
        parts = (_DRESSING.sub("", line).strip() for line in str(error).splitlines())
        text = ": ".join(part for part in parts if part) or type(error).__name__
        for secret in sorted(self.options.secrets, key=len, reverse=True):
            for form in (secret, quote(secret, safe="")):
                text = text.replace(form, _HIDDEN)
        return text


@lru_cache(maxsize=16)
def _open_files(address: str, options: tuple[tuple[str, str], ...]) -> Any:
    """The files of a store of objects, with its connections."""
    return fs.PyFileSystem(DeltaStorageHandler(address, dict(options)))


def _iter_folder(root: Path, under: str) -> Iterator[ListedFile]:
    with os.scandir(root / under) as entries:
        for entry in entries:
            path = f"{under}{entry.name}"
            with suppress(FileNotFoundError):  # it has just been removed
                if entry.is_dir(follow_symlinks=False):
                    if under or entry.name[0] != "_":
                        yield from _iter_folder(root, f"{path}/")
                else:
                    yield ListedFile(path, entry.stat().st_mtime)


def _iter_objects(files: Any) -> Iterator[ListedFile]:
    for top in files.get_file_info(fs.FileSelector("", allow_not_found=True)):
        if top.path[0] == "_":
            continue
        below = [top] if top.is_file else files.get_file_info(fs.FileSelector(top.path, recursive=True))
        for found in below:
            if found.is_file:
                yield ListedFile(found.path, found.mtime.timestamp())


class _FolderFile:
    """In a folder: survives a power loss with its name, when `sync` was called."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path: Final = path
        self._file: Final = path.open("xb")
        self.write: Final = self._file.write
        self.flush: Final = self._file.flush
        self.tell: Final = self._file.tell

    @property
    def closed(self) -> bool:
        return self._file.closed

    def finish(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = self._file.tell()
        self._file.close()
        return size_bytes

    def abandon(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


class _ObjectFile:
    """In a store of objects: sent in parts, and there when the last part is."""

    def __init__(self, files: Any, path: str) -> None:
        self._files: Final = files
        self._path: Final = path
        # The stream itself: Arrow hands over buffers, and the store takes bytes alone.
        self._stream: Final = files.handler._handler.open_output_stream(path, None)
        self._size_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        chunk = bytes(data)
        self._stream.write(chunk)
        self._size_bytes += len(chunk)
        return len(chunk)

    def flush(self) -> None:
        """A part that is too small is not sent."""

    def tell(self) -> int:
        return self._size_bytes

    def finish(self) -> int:
        self.closed = True
        self._stream.close()
        return self._size_bytes

    def abandon(self) -> None:
        if self.closed:
            with suppress(*STORE_ERRORS):
                self._files.delete_file(self._path)
        self.closed = True
