"""What layouts share that write everything with the message: nothing in memory, nothing written behind."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.tails import MessageSink
from holdfast.model.message import Message
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.layout import Passed, Puts, StoredColumns, decode_each
from holdfast.topics.learned import LearnedTopics


class WriteThroughLayout(ABC):
    """The parts of a `Layout` that are about an index that follows its messages."""

    reopens_cheaply: bool = False

    @abstractmethod
    def put(self, topic: bytes, position_us: int, value: bytes, puts: FamilyChanges) -> None: ...

    @abstractmethod
    def read(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, *, in_order: bool = True
    ) -> Iterator[bytes]: ...

    @abstractmethod
    def read_back(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[Passed]: ...

    @property
    def sink(self) -> MessageSink:
        return MessageSink(self.put)

    def read_pages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[StoredColumns]:
        return self.read(family, levels, lo_us, hi_us, in_order=False)

    def read_messages(
        self, family: FamilyReader, levels: tuple[bytes, ...], lo_us: int, hi_us: int, shard: int
    ) -> Iterator[list[Message]]:
        return decode_each(self.read(family, levels, lo_us, hi_us), shard)

    def write_behind(self, puts: Puts, limit: int) -> int:  # noqa: ARG002 (the contract's)
        return 0

    def keep_up(self, family: FamilyReader, puts: Puts) -> None:  # noqa: B027 (nothing to do)
        pass

    def settle(self, family: FamilyReader) -> None:  # noqa: B027
        pass

    def finish(self) -> None:  # noqa: B027
        pass

    def load(self, family: FamilyReader) -> None:  # noqa: B027
        pass

    def learned(self) -> LearnedTopics | None:
        return None
