"""The real log on a real RocksDB, whose syncs wait for the story. A kill leaves a copy of the files.

What a killed process had written is in the files; what a power loss leaves is at least what was in them at the last
sync. So files are copied at each sync, and the story chooses between that copy and the files as they are at the kill.
"""

import shutil
from pathlib import Path
from typing import Final

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.model.clock import Clock
from holdfast.node.settings.tree import Settings, Storage
from holdfast.node.storage import DiskStorage
from tests.interleavings.orders import Choose


class RocksDisk:
    """Requires: an empty folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._lives = 0
        self._disk: DiskStorage | None = None
        self._held = False
        #: Whether somebody asked for a sync since the last one.
        self._asked = False

    @property
    def held(self) -> bool:
        return self._held

    @held.setter
    def held(self, held: bool) -> None:
        self._held = held
        if held:
            self._copy("synced")

    def open(self, policy: Policy, clock: Clock) -> Stores:
        if self._disk is not None:
            self._disk.close()
        storage = Storage(data=self._data(), min_free_bytes=0, sync_on_loop="never")
        self._disk = DiskStorage(Settings(storage=storage), policy, clock)
        setattr(self._disk.engine, "request_sync", self._ask)  # noqa: B010
        return self._disk.stores()

    def _ask(self) -> None:
        self._asked = True

    def unsynced(self) -> int:
        return int(self._asked)

    def sync(self) -> None:
        assert self._disk is not None
        self._asked = False
        self._disk.engine.sync_now()
        if self._held:
            self._copy("synced")

    def kill(self, choose: Choose) -> None:
        """Keep what was synced, or what was written."""
        self._copy("written")
        kept = self._folder / ("written" if choose(2) else "synced")
        self._lives += 1
        self._asked = False
        kept.rename(self._data())

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()
            self._disk = None

    def _data(self) -> Path:
        return self._folder / f"life-{self._lives}"

    def _copy(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)
        shutil.copytree(self._data(), self._folder / name)
