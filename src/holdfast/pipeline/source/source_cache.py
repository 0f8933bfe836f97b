"""One open source that a task leaves for the next task of the same process: Spark uses its workers again.

Opening a data folder reads the messages that are not in its tables yet, a tenth of a second for a hundred thousand of
them. Refreshing a source that is open takes a few milliseconds.

1. One source is cached at most, and none that is in use or that failed.
2. A cached source is refreshed before it is used, so that it does not show what retention has dropped. A source whose
   broker was started again is not used.
3. A cached source keeps the files open that it sees. Spark ends workers that were idle for a minute.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.pipeline.source.history_source import HistorySource, open_source
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.storage.rocks.log.published_heads import HEADS_NAME

_cache: list[tuple[Hashable, HistorySource]] = []


@contextmanager
def cached_source(options: ReadOptions) -> Iterator[HistorySource]:
    """A source that sees what is durable now."""
    key = _key(options)
    source: HistorySource | None = None
    if _cache:
        found, left = _cache.pop()
        if found == key:
            source = left
        else:
            left.close()
    is_cached = source is not None
    if source is None:
        source = open_source(options)
    try:
        if is_cached and options.path:
            source.heads()
        yield source
    except BaseException:
        source.close()
        raise
    clear_cache()
    _cache.append((key, source))


def clear_cache() -> None:
    while _cache:
        _cache.pop()[1].close()


def _key(options: ReadOptions) -> Hashable:
    if options.endpoint:
        return options.endpoint, options.token, options.ca
    try:
        # A broker replaces this file whenever it starts.
        return options.path, (Path(options.path) / HEADS_NAME).stat().st_ino
    except OSError:
        return options.path, None  # `open_source` raises the error
