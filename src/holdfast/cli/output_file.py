"""A file that is there when it is whole, and not before."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final


class Output:
    """Where bytes go, and how many did."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Final = stream
        self.size_bytes = 0

    def write(self, data: bytes, /) -> int:
        self._stream.write(data)
        self.size_bytes += len(data)
        return len(data)


@contextmanager
def whole_file(path: Path | None) -> Iterator[Output]:
    """A file that gets its name when the block ends well; None is standard output. OSError if it cannot be made.

    Survives: once the name is there, the content is. A block that fails leaves nothing behind, and what had the name
    before stays.
    """
    if path is None:
        yield Output(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("xb") as stream:
            yield Output(stream)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
