"""The places in the log that a stored session names: all of them have to be applied here before it is opened.

A session that was served elsewhere may name messages of shards in which this node is behind. What is in flight would
look as if retention had removed it, and what is done would be sent once more when it is applied.
"""

from collections.abc import Iterator

from holdfast.model.owed import QUEUE_SHARD
from holdfast.records.session.progress import decode_progress
from holdfast.records.session.session_keys import (
    PACKET_KINDS,
    PROGRESS,
    REPLAY,
    SUBSCRIPTION,
    client_prefix,
    session_range,
)
from holdfast.records.session.sessions import decode_replay, decode_subscription, slot_of
from holdfast.storage.rocks.engine.family_slice import FamilySlice


def named_positions(rows: FamilySlice, client_id: str) -> dict[int, int]:
    """By shard the last place that a session names. PermanentError if a record of it cannot be read."""
    found: dict[int, int] = {}
    for shard, position_us in _places(rows, client_id):
        if shard != QUEUE_SHARD and position_us > found.get(shard, 0):
            found[shard] = position_us
    return found


def _places(rows: FamilySlice, client_id: str) -> Iterator[tuple[int, int]]:
    at = len(client_prefix(client_id))
    for key, value in rows.items(*session_range(client_id)):
        kind = key[at]
        if kind == SUBSCRIPTION:
            yield from (decode_subscription(key[at + 1 :], value).since_heads or {}).items()
        elif kind == PROGRESS:
            progress = decode_progress(value)
            yield from progress.sent.items()
            yield from [(entry.shard, entry.position_us) for entry in progress.unacknowledged if entry.retained is None]
        elif kind == REPLAY:
            yield from decode_replay(value).sent.items()
        elif kind in PACKET_KINDS:
            slot = slot_of(kind, key, value)
            yield slot.place if slot.stored is None else (slot.stored.shard, slot.stored.position_us)
