"""The queue of one client: messages owed to it, in order, until it has acknowledged them.

A place in a queue is a serial number: dense, increasing, never used again. Packet ids are something else;
they are given out when a message is sent.
"""

from typing import Protocol

from holdfast.model.owed import Owed


class ClientQueue(Protocol):
    """Messages owed to one client.

    1. Serials of what is kept are increasing, and reading returns messages in their order.
    2. What was read stays until it is acknowledged, and no longer counts toward limits: it is in flight.
    """

    def append(self, pack: list[Owed]) -> int:
        """Add messages in order; how many old ones had to go because of a limit.

        Ensures: each of them has its serial.
        Survives: what the implementation says.
        """
        ...

    def read(self, after: int, limit: int) -> list[Owed]:
        """At most `limit` messages whose serial is above `after`; none need not mean that there are none."""
        ...

    def at_end(self) -> bool:
        """Whether the last `read` that found nothing had seen everything; else it has to be asked again."""
        ...

    def acknowledge(self, serial: int) -> None:
        """The client has it: forget it. An unknown serial is harmless."""
        ...

    def release(self, serial: int) -> None:
        """The client sent PUBREC: keep the entry, its content is not needed again."""
        ...

    def count(self) -> int:
        """Messages kept, those in flight included; an estimate where an exact number would cost the backlog."""
        ...

    def drop(self) -> None:
        """Forget everything: the session has ended."""
        ...
