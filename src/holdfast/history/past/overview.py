"""`/zones`, `/patterns`, `/topics`, `/leases`: what there is, without its messages."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from holdfast.durable.log import NO_END
from holdfast.history.past.counts import lost_at_most
from holdfast.history.past.message_json import text_or_base64
from holdfast.history.past.messages import WAIT_S
from holdfast.history.past.questions import Question
from holdfast.history.past.time_scan import ScanLimits, older
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.zone_views import count_messages, list_patterns, size_bytes
from holdfast.records.generations import Generation
from holdfast.records.messages import stored_topic
from holdfast.storage.rocks.log.leases import list_leases
from holdfast.topics.names import SEPARATOR

_MOST: Final = 1000
_DEFAULT: Final = 100
#: How much of the newest messages is looked at to name topics that were seen lately.
_LATELY: Final = 20_000
_LATELY_S: Final = 0.5


def zones(pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    question = Question(params, ())
    with pool.reading(WAIT_S) as reader:
        yield {"zones": [_zone(reader, one.name) for one in reader.zones()], "as_of_us": question.now_us}


def patterns(
    pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]
) -> Iterator[list[dict[str, object]]]:
    """The rows that `holdfast zones patterns --json` prints."""
    question = Question(params, ("zone",))
    with pool.reading(WAIT_S) as reader:
        zone = question.zone(reader.view().zones)
        rows = [asdict(row) for row in list_patterns(reader, zone)]
    yield rows


def leases(
    pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]
) -> Iterator[list[dict[str, object]]]:
    """The rows that `holdfast leases --json` prints."""
    question = Question(params, ())
    yield list_leases(pool.folder, pool.view().heads, question.now_us)


def topics(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    """Learned patterns, and behind them topics that were seen lately, each below `under` and with `q` in its name."""
    question = Question(params, ("under", "q", "limit"))
    limit = question.number("limit", _DEFAULT, 1, _MOST)
    under = question.text("under").strip("/")
    levels = question.filter("under").levels if not under else (*question.topic(under, "under").split(SEPARATOR), b"#")
    wanted = question.text("q").casefold()
    with pool.reading(WAIT_S) as reader:
        found = [*_patterns(reader, levels), *_seen_lately(reader, levels, gone)]
    rows = [row for name, row in found if wanted in name.casefold()]
    yield {"topics": rows[:limit], "more": len(rows) > limit, "as_of_us": question.now_us}


def _zone(reader: HistoryReader, name: str) -> dict[str, Any]:
    view = reader.view()
    zone = view.zones[name]
    records = view.generations(name)
    generations = [_generation(reader, record) for record in records]
    counts = [one["messages"] for one in generations]
    parts = [part for shard in zone.shards for part in view.shard_parts(shard, 0, NO_END)]
    firsts = [first for shard in zone.shards if (first := _first_us(reader, shard)) is not None]
    lasts = [view.heads[part.shard].position_us for part in parts]
    return {
        "name": name,
        "filters": list(zone.filters),
        "shards": list(zone.shards),
        "layout": records[-1].layout if records else None,
        "generations": generations,
        "messages": None if None in counts else sum(counts),
        "oldest_us": min(firsts, default=None),
        "newest_us": max(lasts) if firsts else None,
        "dropped_at_most": lost_at_most(view, 0, NO_END, name),
    }


def _generation(reader: HistoryReader, record: Generation) -> dict[str, Any]:
    return {
        "number": record.number,
        "layout": record.layout,
        "shards": list(record.shards),
        "start_us": record.start_us,
        "end_us": record.end_us or None,
        "messages": count_messages(reader.view(), record),
        "bytes": size_bytes(reader, record) or None,
    }


def _first_us(reader: HistoryReader, shard: int) -> int | None:
    """When the oldest message of a shard was stored."""
    for part in reader.shard_parts(shard, 0, NO_END):
        first = reader.first(part)
        if first is not None:
            return first.position_us
    return None


def _patterns(reader: HistoryReader, levels: tuple[bytes, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Patterns of all zones, the busiest first; the same in several shards is one."""
    counts: dict[str, int] = {}
    for pattern in reader.patterns():
        counts[pattern.text] = counts.get(pattern.text, 0) + pattern.messages
    for text, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
        if text != "#" and _is_below(text.encode().split(SEPARATOR), levels[:-1]):
            yield text, {"name": text, "is_pattern": True, "messages": count, "last_us": None}


def _is_below(pattern: list[bytes], prefix: tuple[bytes, ...]) -> bool:
    """Whether topics of a pattern may lie below the levels of a prefix."""
    if len(pattern) < len(prefix):
        return False
    return all(b"+" in (level, own) or level == own for level, own in zip(prefix, pattern, strict=False))


def _seen_lately(
    reader: HistoryReader, levels: tuple[bytes, ...], gone: Callable[[], bool]
) -> Iterator[tuple[str, dict[str, Any]]]:
    last_us: dict[bytes, int] = {}
    for found in older(reader, (NO_END, 0), 0, levels, limits=ScanLimits(_LATELY, _LATELY_S, gone)):
        last_us.setdefault(stored_topic(found.value), found.position_us)
    for topic, at_us in last_us.items():
        name = topic.decode(errors="replace")
        row = {"name": name, "is_pattern": False, "messages": None, "last_us": at_us}
        # A name with control characters cannot be shown as it is.
        yield name, row if "text" in text_or_base64(topic) else {**row, "raw": text_or_base64(topic)}
