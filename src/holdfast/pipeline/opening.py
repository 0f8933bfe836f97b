"""Open the source of history that the options name."""

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.errors import SettingsError
from holdfast.pipeline.history_source import HistorySource
from holdfast.pipeline.options import Options
from holdfast.pipeline.path_source import PathSource


def open_source(options: Options) -> HistorySource:
    """SettingsError if there is nothing to read."""
    if options.endpoint:
        raise SettingsError("option endpoint: cannot be read from yet; give path, a broker's data folder")
    return PathSource(options.path)


@contextmanager
def opened(options: Options) -> Iterator[HistorySource]:
    """`open_source` for the length of a block."""
    source = open_source(options)
    try:
        yield source
    finally:
        source.close()
