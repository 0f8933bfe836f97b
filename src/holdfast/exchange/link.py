"""The sending side of one connection, as the exchange sees it. Listeners implement it."""

from typing import Protocol


class Link(Protocol):
    """Where a connection's bytes go."""

    def write(self, data: bytes) -> None:
        """Send `data`, in order, without waiting. Called at most once per connection and loop turn."""

    def close(self) -> None:
        """Send what was written, then close. Nothing is written after it."""

    def pause_reading(self) -> None:
        """Hand over no more bytes until `resume_reading`: the client is faster than it may be."""

    def resume_reading(self) -> None:
        """Go on after `pause_reading`."""
