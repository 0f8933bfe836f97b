"""A record that fills: items of one node for one vnode, encoded as they come, until it is sealed with a number.

Items are encoded when they are added, so that the size of the record is known at every moment, and nothing is encoded
twice. A record may end between any two items: what has to count together is one item.
"""

from typing import Final

from holdfast.model.errors import MisuseError
from holdfast.records.cluster.item_codec import encode_item
from holdfast.records.cluster.items import Item, MessageItem
from holdfast.records.cluster.record import (
    EMPTY_RECORD_BYTES,
    MAX_ITEMS,
    MAX_SESSIONS,
    ClusterRecord,
    SessionEntry,
    encode_session_entry,
    join_record,
)
from holdfast.records.cluster.session_steps import StepItem


class OpenRecord:
    """1. `size_bytes` is the size of the record, were it sealed now."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes: Final = limit_bytes
        self._sessions: Final[list[SessionEntry]] = []
        self._places: Final[dict[tuple[str, int], int]] = {}
        self._encoded: Final[list[bytes]] = []
        self.size_bytes = EMPTY_RECORD_BYTES

    def __len__(self) -> int:
        return len(self._encoded)

    def add(self, item: Item, session: SessionEntry | None = None) -> bool:
        """Add an item at the end; whether there was room for it.

        A message or step gets the place of its session in this record. MisuseError: no record has room for it.
        """
        place, new = self._place_of(session)
        encoded = encode_item(_with_session(item, place))
        size_bytes = len(encoded) + (len(encode_session_entry(session)) if new and session is not None else 0)
        if (
            self.size_bytes + size_bytes > self._limit_bytes
            or len(self._encoded) == MAX_ITEMS
            or len(self._sessions) == MAX_SESSIONS
        ):
            if not self._encoded:
                raise MisuseError(
                    f"an item has {size_bytes} bytes, more than a record of {self._limit_bytes} has room for"
                )
            return False
        if new and session is not None:
            self._places[session.session_id, session.revision] = place
            self._sessions.append(session)
        self._encoded.append(encoded)
        self.size_bytes += size_bytes
        return True

    def seal(self, cluster_id: bytes, node: int, epoch: int, number: int, time_us: int, seen_version: int) -> bytes:
        """The bytes of the record. Nothing may be added from here on."""
        record = ClusterRecord(cluster_id, node, epoch, number, time_us, seen_version, self._sessions, [])
        return join_record(record, self._encoded, self._limit_bytes)

    def _place_of(self, session: SessionEntry | None) -> tuple[int, bool]:
        if session is None:
            return 0, False
        place = self._places.get((session.session_id, session.revision))
        return (len(self._sessions), True) if place is None else (place, False)


def _with_session(item: Item, session: int) -> Item:
    """The same item, with the place of its session in the record's table."""
    if isinstance(item, MessageItem) and item.session != session:
        return MessageItem(session, item.message, packet_id=item.packet_id, number=item.number, user=item.user)
    if isinstance(item, StepItem) and item.session != session:
        return StepItem(
            session,
            item.step,
            packet_id=item.packet_id,
            shard=item.shard,
            position_us=item.position_us,
            name=item.name,
            value=item.value,
        )
    return item
