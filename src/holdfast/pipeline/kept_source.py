"""The source that a task leaves for the next one of the same process: Spark uses its workers again.

To open a data folder takes as long as the messages that are not in its tables yet are many, a tenth of a second for a
hundred thousand. To look again takes a few milliseconds.

1. One is kept at most, and none that is in use, or that failed.
2. One that was kept looks again before it is used: what retention has dropped since then is gone for it, too.
   One whose broker was started anew is not taken.
3. Whoever keeps one keeps the files that it sees. Spark ends workers that have had nothing to do for a minute.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.pipeline.history_source import HistorySource
from holdfast.pipeline.opening import open_source
from holdfast.pipeline.options import Options
from holdfast.storage.rocks.published_heads import HEADS_NAME

_kept: list[tuple[Hashable, HistorySource]] = []


@contextmanager
def kept_source(options: Options) -> Iterator[HistorySource]:
    """A source that sees what there is now."""
    place = _place(options)
    source: HistorySource | None = None
    if _kept:
        found, left = _kept.pop()
        if found == place:
            source = left
        else:
            left.close()
    is_kept = source is not None
    if source is None:
        source = open_source(options)
    try:
        if is_kept and options.path:
            source.heads()
        yield source
    except BaseException:
        source.close()
        raise
    let_go()
    _kept.append((place, source))


def let_go() -> None:
    """Close what is kept."""
    while _kept:
        _kept.pop()[1].close()


def _place(options: Options) -> Hashable:
    if options.endpoint:
        return options.endpoint, options.token, options.ca
    try:
        # A broker replaces it whenever it starts.
        return options.path, (Path(options.path) / HEADS_NAME).stat().st_ino
    except OSError:
        return options.path, None  # the error is found, and told, when it is opened
