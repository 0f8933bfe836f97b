"""Standard output of a command: bytes as they are, and a clean end when the reader has left."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.commands import FAILED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(OSError):
    """Standard output cannot be written, for example because the disk is full."""


class _StandardOutput(io.FileIO):
    """Raises OutputError for errors of standard output, so that they differ from those of other files."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


@contextmanager
def check_standard_output() -> Iterator[None]:
    """Run a program and end it cleanly if its output cannot be written: with a message, unless the reader has left."""
    if sys.stdout is None:
        # The caller has closed it: descriptor 1 must not be given to a database file.
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
        raise SystemExit(FAILED) from None
    except OutputError as error:
        _discard_output()
        print(f"holdfast: standard output: {error.strerror}", file=sys.stderr)
        raise SystemExit(FAILED) from None


def write_line(line: bytes, *, flush: bool = True) -> None:
    """Print bytes as they are: payloads need not be text."""
    sys.stdout.buffer.write(line)
    if flush:
        sys.stdout.buffer.flush()


@contextmanager
def tolerate_closed_pipe() -> Iterator[None]:
    """End the block without an error if the reader of our output has left, as with `| head`."""
    try:
        yield
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _discard_output()


def _discard_output() -> None:
    """Discard what is left: Python would report the error again while closing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
