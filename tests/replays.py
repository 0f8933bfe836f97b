"""Replays of one filter, as tests want them."""

from holdfast.durable.log import NO_END, MessageLog
from holdfast.durable.replay import FiltersOf, LogReplay
from holdfast.records.cursors import Cursor


def one_filter(log: MessageLog, levels: tuple[bytes, ...]) -> FiltersOf:
    """The same filter for every shard that may hold a match."""
    return lambda shard: [levels] if shard in log.shards_for(levels) else []


def replay_of(
    log: MessageLog, levels: tuple[bytes, ...], since_us: int, until_us: int = NO_END, *, by_time: bool = False
) -> LogReplay:
    return LogReplay(log, one_filter(log, levels), since_us, until_us, by_time=by_time)


def resumed_replay(
    log: MessageLog, levels: tuple[bytes, ...], cursor: Cursor, since_us: int, *, by_time: bool = False
) -> LogReplay:
    return LogReplay(log, one_filter(log, levels), since_us, cursor=cursor, by_time=by_time)
