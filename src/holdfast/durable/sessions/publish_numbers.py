"""Numbered messages: a client that sends the same thing twice has it taken once.

A publisher that does not know whether its last message arrived has to send it again. MQTT's own answer is QoS 2, which
remembers packet ids of a session; a program that was restarted and computes the same output once more has other packet
ids. So an MQTT 5 client may number its messages, by the user property `publish-number`:

1. Of the messages of one client id and user, those are taken whose number is above the last one taken. The others are
   acknowledged and neither stored nor delivered.
2. The last number is stored in the batch of its message: after a crash both are there or neither.
3. It outlives the session: client id and user are what counts. Under `sessions.owner = "any"` the client id alone does.
   So it did in earlier versions: a number that is stored without a user counts for every user of its client id.
4. A message that is refused ends the connection. If those behind it were taken, its number would be below the last one,
   and if it is sent again, with more rights or on a disk with more room, it would be ignored.

Messages of QoS 0 are not acknowledged, so they are not sent again, and their number is ignored.
"""

from typing import Final, Protocol

from holdfast.durable.commit import Batch

PUBLISH_NUMBER: Final = "publish-number"
#: What fits into the stored record.
MAX_NUMBER: Final = 2**63 - 1
#: Clients whose last number is kept at hand. A number that is under way to the disk is always among them.
_AT_HAND: Final = 10_000


def numbers_key(client_id: str, user: str) -> str:
    """The name for the numbers of a user's client. No client id contains U+0000; one follows a mount point."""
    return f"{client_id}\0\0{user}"


class NumberStore(Protocol):
    """The last numbers, by `numbers_key` or client id."""

    def last(self, key: str) -> int:
        """The last number that was written; -1 if there is none."""


class MemoryNumbers(NumberStore):
    """Has none beyond those at hand. Survives: nothing."""

    def last(self, key: str) -> int:  # noqa: ARG002 (the contract's)
        return -1


class PublishNumbers:
    """Judges numbers, with those that are not written yet."""

    def __init__(self, store: NumberStore) -> None:
        self._store: Final = store
        self._at_hand: Final[dict[str, int]] = {}

    def forget(self, session_id: str) -> None:
        """What was taken of a session lately may not count: look at what is stored again."""
        for key in [key for key in self._at_hand if key.partition("\0\0")[0] == session_id]:
            del self._at_hand[key]

    def take(self, key: str, number: int, batch: Batch) -> bool:
        """Whether a message with this number is new; then its number is stored with the batch."""
        last = self._at_hand.get(key, -1)
        if last < 0:
            last = self._store.last(key)
            client_id, separator, _user = key.partition("\0\0")
            if separator:
                last = max(last, self._at_hand.get(client_id, -1), self._store.last(client_id))
            if len(self._at_hand) >= _AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
        is_new = number > last
        # Put back at the end: the first one is the one that was used longest ago.
        self._at_hand.pop(key, None)
        self._at_hand[key] = max(last, number)
        if is_new:
            batch.numbers[key] = number
        return is_new
