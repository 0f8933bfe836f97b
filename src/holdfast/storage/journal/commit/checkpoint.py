"""The checkpoint of a commit file: all its changes are synced in the files of the queues."""

from pathlib import Path
from typing import Final

from holdfast.files.folders import sync_folders
from holdfast.storage.journal.commit.commit_file import CommitFile


class Checkpoint:
    """A finished commit file, and what must be synced before it is deleted."""

    def __init__(self, root: Path, file: CommitFile, begun_us: int) -> None:
        self.root: Final = root
        self.file: Final = file
        self.begun_us: Final = begun_us
        #: Queues whose base is in the file; folders with something to sync.
        self.touched: Final[set[str]] = set()
        self.dirty: Final[set[Path]] = set()
        #: Files to delete at the end, by the folder of their queue.
        self.drained: Final[dict[Path, list[Path]]] = {}

    def sync(self) -> None:
        """May run on any thread. Requires: nothing is added any more."""
        sync_folders(self.dirty, self.root)
