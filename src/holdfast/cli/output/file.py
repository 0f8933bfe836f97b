"""Output files that appear when they are complete."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.files.replacement import open_replacement


class CountedOutput:
    """A stream that counts its bytes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Final = stream
        self.size_bytes = 0

    def write(self, data: bytes, /) -> int:
        self._stream.write(data)
        self.size_bytes += len(data)
        return len(data)


@contextmanager
def open_output(path: Path | None) -> Iterator[CountedOutput]:
    """A file that appears when the block ends without an error; None is standard output. OSError if it cannot be made.

    Survives: a power loss, once the file has its name. A block that fails leaves the old file of that name unchanged.
    """
    if path is None:
        yield CountedOutput(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with open_replacement(path) as file:
        yield CountedOutput(file)
