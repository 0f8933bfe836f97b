"""The end of a commit file: when everything that it speaks of is synced in the queues' own files."""

from pathlib import Path
from typing import Final

from holdfast.storage.journal.commit_file import CommitFile
from holdfast.storage.journal.files import sync_folders


class Checkpoint:
    """A commit file that is not written to any more, and what has to be synced before it may go."""

    def __init__(self, root: Path, file: CommitFile, begun_us: int) -> None:
        self.root: Final = root
        self.file: Final = file
        self.begun_us: Final = begun_us
        #: Queues whose base is in the file; folders with something to sync.
        self.touched: Final[set[str]] = set()
        self.dirty: Final[set[Path]] = set()
        #: Files to be deleted in the end, by the folder of their queue.
        self.drained: Final[dict[Path, list[Path]]] = {}

    def sync(self) -> None:
        """Any thread. Requires: nothing is added any more."""
        sync_folders(self.dirty, self.root)
