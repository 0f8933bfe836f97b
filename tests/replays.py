"""Replays of one filter, as tests want them."""

from holdfast.durable.log import NO_END, MessageLog
from holdfast.durable.replay import LogReplay, OneFilter, start_replay
from holdfast.records.cursors import Cursor


def replay_of(
    log: MessageLog, levels: tuple[bytes, ...], since_us: int, until_us: int = NO_END, *, by_time: bool = False
) -> LogReplay:
    return start_replay(log, OneFilter(log, levels), since_us, until_us, by_time=by_time)


def resumed_replay(
    log: MessageLog, levels: tuple[bytes, ...], cursor: Cursor, since_us: int, *, by_time: bool = False
) -> LogReplay:
    return start_replay(log, OneFilter(log, levels), since_us, cursor=cursor, by_time=by_time)
