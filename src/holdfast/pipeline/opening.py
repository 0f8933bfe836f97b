"""Open the source of history that the options name."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.pipeline.flight_source import FlightSource, reached
from holdfast.pipeline.history_source import HistorySource
from holdfast.pipeline.options import Options
from holdfast.pipeline.path_source import PathSource


def open_source(options: Options) -> HistorySource:
    """SettingsError if there is nothing to read by path."""
    if options.endpoint:
        return FlightSource(options.endpoint, options.token, options.ca)
    return PathSource(options.path)


@contextmanager
def opened(options: Options) -> Iterator[HistorySource]:
    """`open_source` for the length of a block."""
    source = open_source(options)
    try:
        yield source
    finally:
        source.close()


def check_source(options: Options) -> None:
    """SettingsError, without much waiting, if the source cannot be read or has no such zone."""
    reads = options.endpoint and reached(options.endpoint, options.token, options.ca)
    source = reads or PathSource(options.path)
    try:
        source.parts(0, 0, options.zone)
    finally:
        source.close()
