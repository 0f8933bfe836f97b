"""What was erased: messages that may still lie in the log, and that no reader is shown any more.

    erase client X │ up to position p of each shard
    ───────────────┤──────────────────▶ the log
    hidden         │ what X publishes later is shown

1. An erasure names a client or a topic filter, and for each shard the last position that it covers. A shard that it
   does not name was empty then.
2. A reader of the log asks here before it returns a message, and counts serials before it asks: what is left out on
   purpose is not a short read.
3. A retained message that has no place in the log is covered by the time at which it was stored.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: Topics whose erasures are remembered.
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, eq=False)
class Erasure:
    """Hides the messages of a client, or of the topics of a filter."""

    #: Empty if it is about topics.
    client: str
    #: Empty if it is about a client.
    levels: tuple[bytes, ...]
    up_to: dict[int, int]
    made_us: int
    made_by: str

    @property
    def what(self) -> str:
        """As text, different for every erasure."""
        return f"client {self.client}" if self.client else f"topics {b'/'.join(self.levels).decode(errors='replace')}"

    def concerns(self, topic: bytes, publisher: str) -> bool:
        if self.client:
            return publisher == self.client
        return levels_match(self.levels, topic.split(SEPARATOR), dollar=is_dollar(topic))


class Erasures:
    """All of them."""

    def __init__(self, made: list[Erasure]) -> None:
        self.all: Final = made
        #: By shard, the highest position that any covers.
        self.highest_us: Final[dict[int, int]] = {}
        self._by_client: Final[dict[str, Erasure]] = {}
        self._by_topic: Final[list[Erasure]] = []
        self._remembered: Final[dict[bytes, list[Erasure]]] = {}
        for erasure in made:
            for shard, position_us in erasure.up_to.items():
                self.highest_us[shard] = max(self.highest_us.get(shard, 0), position_us)
            if erasure.client:
                self._by_client[erasure.client] = erasure
            else:
                self._by_topic.append(erasure)

    def may_hide(self, shard: int, from_us: int) -> bool:
        """Whether anything of a shard from a position on can be hidden; if not, `hides` need not be asked."""
        return from_us <= self.highest_us.get(shard, -1)

    def hides(self, shard: int, position_us: int, topic: bytes, publisher: str) -> bool:
        """Whether the message at a place is erased."""
        if position_us > self.highest_us.get(shard, -1):
            return False
        own = self._by_client.get(publisher)
        if own is not None and position_us <= own.up_to.get(shard, -1):
            return True
        return any(position_us <= erasure.up_to.get(shard, -1) for erasure in self.of_topic(topic))

    def hides_retained(self, shard: int, position_us: int, stored_us: int, topic: bytes, publisher: str) -> bool:
        """The same for a retained message, whose place may be 0: it is in no log."""
        if position_us:
            return self.hides(shard, position_us, topic, publisher)
        own = self._by_client.get(publisher)
        if own is not None and stored_us <= own.made_us:
            return True
        return any(stored_us <= erasure.made_us for erasure in self.of_topic(topic))

    def of_client(self, client: str) -> Erasure | None:
        return self._by_client.get(client)

    def of_topic(self, topic: bytes) -> list[Erasure]:
        """Those of filters that match a topic."""
        if not self._by_topic:
            return self._by_topic
        known = self._remembered.get(topic)
        if known is None:
            known = [erasure for erasure in self._by_topic if erasure.concerns(topic, "")]
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[topic] = known
        return known


def no_erasures() -> Erasures:
    return Erasures([])
