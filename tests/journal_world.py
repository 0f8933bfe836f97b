"""A journal of client queues for tests: a folder, a clock that stands still, messages with numbers."""

from pathlib import Path
from typing import Any

from holdfast.durable.queues.queue_store import DROP_OLDEST, AppendBatch, Appended, QueueEntry, QueueLimits
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.storage.journal.commit.recovery import JournalRecovery, RecoveredJournal
from holdfast.storage.journal.journal import Journal
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.queue_folders import QueueFolders

PLENTY = QueueLimits(1_000_000, 1 << 40)
SECOND_US = 1_000_000


def entry(
    number: int, payload: bytes | None = None, *, qos: int = 1, expires_us: int = 0, topic: bytes = b"t"
) -> QueueEntry:
    body = b"payload %d" % number if payload is None else payload
    message = Message(topic, body, qos, ClientId("publisher"), 1_700_000_000_000_000, expires_us=expires_us)
    return QueueEntry(number, Owed(message, qos), expires_us)


def pack(client_id: str, *numbers: int, limits: QueueLimits = PLENTY) -> AppendBatch:
    return AppendBatch(client_id, [entry(number) for number in numbers], limits)


def limits(messages: int, size_bytes: int = 1 << 40, *, ttl_s: int = 0, on_full: str = DROP_OLDEST) -> QueueLimits:
    return QueueLimits(messages, size_bytes, ttl_s, on_full=on_full)


class JournalWorld:
    """The core of a journal without its thread; `restart` is a killed process and a new one."""

    def __init__(self, root: Path, clock: ManualClock | None = None, **options: Any) -> None:
        self.root = root
        self.clock = clock or ManualClock()
        self.options = JournalOptions(**{"max_file_messages": 1000, **options})
        self.recovered = RecoveredJournal()
        self.journal = self._start()

    def _start(self) -> Journal:
        self.root.mkdir(parents=True, exist_ok=True)
        folders = QueueFolders.load(self.root, self.options.fragments)
        self.recovered = JournalRecovery(folders, self.options, self.clock.wall_us()).run()
        return Journal(folders, self.clock, self.options)

    def restart(self, **options: Any) -> None:
        """Nothing is closed: whoever was killed has not said anything."""
        self.options = JournalOptions(**{**vars(self.options), **options})
        self.journal = self._start()

    def append(self, client_id: str, *numbers: int, limits: QueueLimits = PLENTY) -> Appended:
        appended = self.journal.append(pack(client_id, *numbers, limits=limits))
        self.journal.flush(sync=True)
        return appended

    def acknowledge(self, client_id: str, *serials: int) -> None:
        self.journal.acknowledge(client_id, list(serials))
        self.journal.flush(sync=False)

    def release(self, client_id: str, *serials: int) -> None:
        self.journal.release(client_id, list(serials))
        self.journal.flush(sync=True)

    def checkpoint(self) -> None:
        begun = self.journal.begin_checkpoint()
        assert begun is not None
        begun.sync()
        self.journal.end_checkpoint(begun)

    def numbers(self, client_id: str) -> list[int]:
        """What is owed, by the messages' numbers; their content is checked."""
        found = self.journal.read(client_id, 0, 1_000_000)
        assert [one.message.payload for one in found] == [b"payload %d" % one.number for one in found]
        return [one.number for one in found]

    def serials(self, client_id: str) -> list[int]:
        return [one.owed.serial for one in self.journal.read(client_id, 0, 1_000_000)]

    def folder(self, client_id: str) -> Path:
        return self.journal.folders.find(client_id)

    def names(self, client_id: str) -> list[str]:
        return sorted(path.name for path in self.folder(client_id).iterdir())
