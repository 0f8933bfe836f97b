"""Open the source of history that the options name. What reads it is imported when it is known which it is."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.pipeline.history_source import HistorySource
from holdfast.pipeline.options import Options


def open_source(options: Options) -> HistorySource:
    """SettingsError if there is nothing to read by path."""
    if options.endpoint:
        from holdfast.pipeline.flight_source import FlightSource

        return FlightSource(options)
    return _by_path(options)


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
    source = _reached(options) if options.endpoint else _by_path(options)
    try:
        source.parts(0, 0, options.zone)
    finally:
        source.close()


def _reached(options: Options) -> HistorySource:
    from holdfast.pipeline.flight_source import reached

    return reached(options)


def _by_path(options: Options) -> HistorySource:
    from holdfast.pipeline.path_source import PathSource

    return PathSource(options.path)
