"""A record that fills: items of one node for one vnode, encoded as they come, until it is sealed with a number.

Items are encoded when they are added, so that the size of the record is known at every moment, and nothing is encoded
twice. A record may end between any two items: what has to count together is one item.
"""

from typing import Final

from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.records.cluster.item_codec import encode_item, encode_message_item
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
        #: The session of the last item, and its place: a client that is pipelining gives many in a row.
        self._last: SessionEntry | None = None
        self._last_place = 0
        self._encoded: Final[list[bytes]] = []
        self.size_bytes = EMPTY_RECORD_BYTES

    def __len__(self) -> int:
        return len(self._encoded)

    def add(self, item: Item, session: SessionEntry | None = None) -> bool:
        """Add an item at the end; whether there was room for it.

        A message or step gets the place of its session in this record. MisuseError: no record has room for it.
        """
        if isinstance(item, MessageItem) and session is not None:
            return self.add_message(session, item.message, item.packet_id, item.number, item.user)
        place = 0 if session is None else self._place_of(session)
        return self._add(encode_item(_with_session(item, place)), session, place)

    def add_message(
        self, session: SessionEntry, message: Message, packet_id: int, number: int, user: str | None
    ) -> bool:
        """As `add` for a `MessageItem` with these fields."""
        place = self._place_of(session)
        return self._add(encode_message_item(place, message, packet_id, number, user), session, place)

    def _add(self, encoded: bytes, session: SessionEntry | None, place: int) -> bool:
        size_bytes = len(encoded)
        new = session is not None and place == len(self._sessions)
        if new and session is not None:
            size_bytes += len(encode_session_entry(session))
        if (
            self.size_bytes + size_bytes > self._limit_bytes
            or len(self._encoded) == MAX_ITEMS
            or (new and place == MAX_SESSIONS)
        ):
            if not self._encoded:
                raise MisuseError(
                    f"an item has {size_bytes} bytes, more than a record of {self._limit_bytes} has room for"
                )
            return False
        if new and session is not None:
            self._places[session.session_id, session.revision] = place
            self._sessions.append(session)
        self._last = session
        self._last_place = place
        self._encoded.append(encoded)
        self.size_bytes += size_bytes
        return True

    def seal(self, cluster_id: bytes, node: int, epoch: int, number: int, time_us: int, seen_version: int) -> bytes:
        """The bytes of the record. Nothing may be added from here on."""
        record = ClusterRecord(cluster_id, node, epoch, number, time_us, seen_version, self._sessions, [])
        return join_record(record, self._encoded, self._limit_bytes)

    def _place_of(self, session: SessionEntry) -> int:
        """The place that a session has, or would get behind all others."""
        if session is self._last:
            return self._last_place
        place = self._places.get((session.session_id, session.revision))
        return len(self._sessions) if place is None else place


def _with_session(item: Item, session: int) -> Item:
    """The same item, with the place of its session in the record's table."""
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
