"""Files of Iceberg's metadata, in the same store as the data, by the same means (`store.py`).

1. A file of a folder is synced, with its name, when it is closed, and so before the catalog hears of it: a catalog that
   names a file of which the disk has nothing is a table that cannot be opened. pyiceberg by itself does not wait.
2. A store of objects is asked with the options that lakes of Delta have: one set of credentials, which no property of a
   catalog repeats.
"""

from typing import Any, Final, Self

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.lake.store_options import parse_address

#: What a catalog is told to use.
METADATA_FILES: Final = f"{__name__}.MetadataFiles"


class MetadataFiles(PyArrowFileIO):
    """pyiceberg's access to files."""

    def new_input(self, location: str) -> PyArrowFile:
        store, path = _place(location)
        if store.folder is not None:
            return super().new_input(location)
        return PyArrowFile(location, path, store.files())

    def new_output(self, location: str) -> PyArrowFile:
        store, path = _place(location)
        files = self.fs_by_scheme("file", "") if store.folder is not None else store.files()
        return _NewFile(location, path, files, store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        store, path = _place(location if isinstance(location, str) else location.location)
        store.remove([path])


class _NewFile(PyArrowFile):
    def __init__(self, location: str, path: str, files: Any, store: LakeStore) -> None:
        # Of a folder, the whole path is asked for.
        super().__init__(location, path if store.folder is None else store.location(path), files)
        self._store: Final = store
        self._name: Final = path

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 a parameter of pyiceberg
        """Names are used once, so that there is nothing to overwrite."""
        return _Stream(self._store, self._name)


class _Stream:
    """A file that is there, and whole, when it is closed."""

    def __init__(self, store: LakeStore, name: str) -> None:
        self._store: Final = store
        self._name: Final = name
        self._file: Final = store.create(name)
        self._size_bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._size_bytes += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.finish()
            self._store.sync([self._name])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self.close()
        elif not self.closed:
            self.closed = True
            self._file.abandon()


def _place(location: str) -> tuple[LakeStore, str]:
    """The store of a file, and its path there."""
    address = parse_address(location)
    if not address.kind:
        folder, _, name = address.text.rpartition("/")
        return LakeStore(folder or "/"), name
    root = f"{address.kind}://{address.place}"
    return LakeStore.at(root), address.text.removeprefix(f"{root}/")
