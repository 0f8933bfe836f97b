"""A will as it is kept: ready to be published, with the time it has to wait."""

from typing import Final


class StoredWill:
    """The message that stands in for a client's goodbye. Never changes.

    1. `topic` is the topic as the node sees it, with the mount point; `properties` are those of the message.
    """

    def __init__(
        self, topic: bytes, payload: bytes, qos: int, *, retain: bool, properties: bytes, delay_s: int, expiry_s: int
    ) -> None:
        self.topic: Final = topic
        self.payload: Final = payload
        self.qos: Final = qos
        self.retain: Final = retain
        self.properties: Final = properties
        self.delay_s: Final = delay_s
        #: Message expiry from the moment of publishing; -1 for none.
        self.expiry_s: Final = expiry_s

    def _fields(self) -> tuple[bytes, bytes, int, bool, bytes, int, int]:
        return (self.topic, self.payload, self.qos, self.retain, self.properties, self.delay_s, self.expiry_s)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredWill) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"StoredWill({self.topic!r}, {len(self.payload)} B, qos={self.qos}, delay_s={self.delay_s})"
