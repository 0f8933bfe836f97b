"""Standard output of a command: bytes as they are, and an end in good order when nobody takes them."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FAILED: Final = 1


class OutputError(OSError):
    """Standard output takes nothing more: a full disk, for instance."""


class _StandardOutput(io.FileIO):
    """Tells the errors of standard output from those of other files. A reader that left stays a BrokenPipeError."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


@contextmanager
def checked_output() -> Iterator[None]:
    """Run a program whose output may find no place: a sentence for a full disk, none for a reader that left."""
    if sys.stdout is None:
        # Closed by the caller: file number 1 must not become that of a database.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    else:
        own = io.BufferedWriter(_StandardOutput(sys.stdout.fileno(), "wb", closefd=False))
        errors = "backslashreplace" if sys.stdout.errors == "strict" else sys.stdout.errors
        sys.stdout = io.TextIOWrapper(own, sys.stdout.encoding, errors, line_buffering=sys.stdout.isatty())
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(_FAILED) from None
    except OutputError as error:
        _discard_output()
        print(f"holdfast: standard output: {error.strerror}", file=sys.stderr)
        raise SystemExit(_FAILED) from None


def put(line: bytes, *, flush: bool = True) -> None:
    """Print a line as it is: payloads need not be text."""
    sys.stdout.buffer.write(line)
    if flush:
        sys.stdout.buffer.flush()


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """End the block in peace if whoever reads our output leaves: `| head` is a usual way to use a command."""
    try:
        yield
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _discard_output()


def _discard_output() -> None:
    """Python would complain once more while closing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
