"""A message: published content with what the broker noted when it arrived. It never changes.

Topic and properties stay the bytes that came over the wire. They were validated once, on
arrival, and from then on travel to subscribers and to disk without being taken apart.
"""

from typing import Final

from holdfast.model.ids import ClientId


class Message:
    """Published content.

    1. `topic` is a valid topic name, never empty.
    2. `properties` holds PUBLISH properties as MQTT 5 encodes them, without the length in front,
       without topic alias and subscription identifiers: those belong to one connection.
    3. `expires_us` is wall time in microseconds; 0 means never.
    4. `shard` and `position_us` are its place in the log, noted when it is written there; 0 and 0 until then.
       They are no part of what was published, so two messages that differ only in them are equal.
    """

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int,
        publisher: ClientId,
        received_us: int,
        *,
        retain: bool = False,
        properties: bytes = b"",
        expires_us: int = 0,
    ) -> None:
        self.topic: Final = topic
        self.payload: Final = payload
        self.qos: Final = qos
        self.publisher: Final = publisher
        self.received_us: Final = received_us
        self.retain: Final = retain
        self.properties: Final = properties
        self.expires_us: Final = expires_us
        self.shard = 0
        self.position_us = 0

    def expired(self, now_us: int) -> bool:
        return 0 < self.expires_us <= now_us

    def _fields(self) -> tuple[bytes, bytes, int, str, int, bool, bytes, int]:
        return (
            self.topic,
            self.payload,
            self.qos,
            self.publisher,
            self.received_us,
            self.retain,
            self.properties,
            self.expires_us,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {len(self.payload)} B, qos={self.qos}, publisher={self.publisher!r})"


class ArchivedMessage(Message):
    """A message that was read from a lake. Its place is the one that it had in the log, which may not have it any more:
    a session that has to find it again stores it whole.
    """

    def like(self, properties: bytes) -> "ArchivedMessage":
        """The same message at the same place, with other properties."""
        return archived_message(self, self.shard, self.position_us, properties)


def archived_message(
    message: Message, shard: int, position_us: int, properties: bytes | None = None
) -> ArchivedMessage:
    """A message as one of a lake, at its place; with other properties, if they are given."""
    archived = ArchivedMessage(
        message.topic,
        message.payload,
        message.qos,
        message.publisher,
        message.received_us,
        retain=message.retain,
        properties=message.properties if properties is None else properties,
        expires_us=message.expires_us,
    )
    archived.shard = shard
    archived.position_us = position_us
    return archived
