"""The column families that a node has besides those of its messages, and what the log needs of the engine."""

from typing import Final, Protocol

from rocksdict import Rdict

#: What a node has to know before it can read or write a message; sessions; retained messages. Never change.
META: Final = "meta"
SESSIONS: Final = "sessions"
RETAINED: Final = "retained"


class Contents(Protocol):
    """Column families by name. The engine fits by shape."""

    def family(self, name: str) -> Rdict: ...

    def families(self) -> list[str]: ...

    def create_family(self, name: str) -> None: ...

    def drop_family(self, name: str) -> None: ...
