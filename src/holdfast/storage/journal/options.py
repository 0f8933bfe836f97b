"""Options of a journal of queues."""

from dataclasses import dataclass, field
from typing import Final

from holdfast.model.errors import SettingsError
from holdfast.storage.journal.queue.state_file import StateBackups
from holdfast.storage.journal.queue_folders import check_fragments

FSYNC: Final = "fsync"
OS: Final = "os"


@dataclass(frozen=True, kw_only=True)
class JournalOptions:
    """SettingsError for values that cannot be."""

    #: What an append survives. `fsync`: a power loss. `os`: a killed process, and a power loss `sync_interval_s` later.
    durability: str = FSYNC
    sync_interval_s: float = 30.0
    #: Letters of each folder in the path of a queue; None: those of the journal, or 2, 2, 2, 2 in a new one.
    fragments: tuple[int, ...] | None = None
    #: The most waiting messages in any queue, in addition to the limits of a batch; None has no such limit.
    max_queue_messages: int | None = None
    #: Messages after which a file is full.
    max_file_messages: int = 131_072
    #: How many dated copies of a queue's state file are kept.
    backups: StateBackups = field(default_factory=StateBackups)
    #: The most open queues, and the most messages in their indexes.
    max_open_queues: int = 256
    max_open_messages: int = 1_000_000
    #: Seconds after which an unused queue closes its files.
    idle_s: float = 60.0
    #: Bytes and seconds after which a commit file gets its checkpoint and is deleted.
    commit_bytes: int = 16 << 20
    checkpoint_s: float = 30.0

    def __post_init__(self) -> None:
        if self.durability not in (FSYNC, OS):
            raise SettingsError(f"a journal of queues has durability fsync or os, not {self.durability!r}")
        if self.max_queue_messages is not None and self.max_file_messages <= self.max_queue_messages:
            raise SettingsError(
                f"a file of {self.max_file_messages} messages cannot hold a queue of {self.max_queue_messages}: "
                f"choose max_file_messages greater than max_queue_messages"
            )
        if self.backups.files < 1 or self.backups.age_s < 0:
            raise SettingsError("a queue keeps one dated copy of its states at least, and for no negative time")
        if self.max_open_queues < 1:
            raise SettingsError("max_open_queues has to be at least 1")
        if self.fragments is not None:
            check_fragments(self.fragments)
