"""A world whose broker keeps its state on a disk: the real log on a real RocksDB, with a clock that tests move."""

from pathlib import Path
from types import TracebackType

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.model.clock import ManualClock
from holdfast.node.settings import Settings, Storage, ZoneSettings
from holdfast.node.storage import DiskStorage
from tests.world import World


class DiskWorld(World):
    """`DiskWorld(folder)` again on the same folder is a restart of the broker."""

    def __init__(
        self,
        folder: Path,
        policy: Policy | None = None,
        *,
        start_us: int = 1_700_000_000_000_000,
        min_free_bytes: int = 0,
        unstored: str = "",
    ) -> None:
        self._folder = folder
        self._start_us = start_us
        self._min_free_bytes = min_free_bytes
        self._zones = {"unstored": ZoneSettings(filter=unstored, store=False)} if unstored else {}
        super().__init__(policy)

    def make_stores(self, policy: Policy) -> Stores:
        self.clock = ManualClock(self._start_us)
        settings = Settings(zones=self._zones, storage=Storage(data=self._folder, min_free_bytes=self._min_free_bytes))
        self.disk = DiskStorage(settings, policy, self.clock)
        return self.disk.stores()

    def settle(self) -> None:
        """Receipts come from another thread: wait for them, as often as one may lead to the next."""
        for _round in range(5):
            super().settle()
            self.disk.engine.sync_now()
        super().settle()

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass, and do what a node does once a second."""
        self.advance(seconds)
        self.do(lambda: self.disk.look_after(self.broker))

    def crash(self) -> None:
        """The process is gone: nothing is said, nothing is saved."""
        self.__exit__(None, None, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.disk.close()
