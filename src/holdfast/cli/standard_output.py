"""Bytes to standard output, for whoever reads along."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
        # Python would complain once more while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
