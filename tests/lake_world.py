"""A broker whose log has a lake behind it. Pages come from the reader of the history process, when the test lets them.

`archive` copies the log as `holdfast spark archive` does; `age` lets retention drop what is archived. Answers are held
back between `hold` and `answer`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.durable.lake_log import LakeCounts, LakeHistory
from holdfast.durable.lake_page import LakePage, LakeQuestion, decode_page
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.errors import HoldfastError
from holdfast.pipeline.lake.lake_pages import LakePages
from holdfast.storage.rocks.log.leases import remove_lease
from tests.disk_world import DiskWorld, publish
from tests.replays import replay_of
from tests.unit.pipeline.local_archive import archive

#: Generations of ten seconds, of which those of the last twenty stay.
SHORT = {"generation_s": 10, "retention_s": 20}


@dataclass(eq=False)
class Asking:
    """A question whose answer is held back."""

    question: Callable[[], LakeQuestion]
    answered: Callable[[LakePage], None]
    failed: Callable[[str], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class HeldLake:
    """A `LakeSource` over a real lake; an answer is given when the test, or the loop, comes to it."""

    def __init__(self, data: Path, lake: Path) -> None:
        self.counts = LakeCounts()
        self.pages = LakePages(lake)
        self.asked: list[Asking] = []
        self._data = data

    def ask(
        self,
        question: Callable[[], LakeQuestion],
        answered: Callable[[LakePage], None],
        failed: Callable[[str], None],
    ) -> Asking:
        asking = Asking(question, answered, failed)
        self.asked.append(asking)
        return asking

    def problem(self) -> str:
        return ""

    def answer(self) -> None:
        """Answer the oldest question, as the history process would."""
        asking = self.asked.pop(0)
        if asking.cancelled:
            return
        question = asking.question()
        params = {name: [value] for name, value in question.parameters()}
        pool = ReaderPool(self._data, 2)
        try:
            file = self.pages.answer(pool, params, lambda: False)
            self.counts.pages += 1
            page = decode_page(b"".join(file.blocks))
        except HoldfastError as error:
            asking.failed(str(error))
            return
        finally:
            pool.close()
        asking.answered(page)


class LakeWorld(DiskWorld):
    """`LakeWorld(folder)` again on the same folder is a restart of the broker."""

    def __init__(self, folder: Path, policy: Policy | None = None, **options: Any) -> None:
        self.lake_folder = folder / "lake"
        self.data = folder / "data"
        super().__init__(self.data, policy, **{"storage": SHORT, **options})
        self.held = False

    def make_stores(self, policy: Policy) -> Stores:
        stores = super().make_stores(policy)
        self.lake = HeldLake(self.data, self.lake_folder)
        return replace(stores, lake=LakeHistory(self.disk.log.reader, self.lake))

    def settle(self) -> None:
        super().settle()
        while not getattr(self, "held", True) and self.lake.asked:
            self.answer()

    def answer(self) -> None:
        """Answer one question, and let the broker work."""
        self._loop.call_soon(self.lake.answer)
        super().settle()

    def archive(self) -> None:
        archive(self.data, self.lake_folder)
        # Retention is up to the test: a lease has the time of the machine, and this world has its own.
        remove_lease(self.data, "archive-main")

    def age(self, seconds: int = 40) -> None:
        """Let generations end, and retention drop the old ones."""
        for _step in range(seconds // 5):
            self.tick(5)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def fill(world: LakeWorld, first: int, last: int, qos: int = 1) -> None:
    """Messages half a second apart, of two topics."""
    for number in range(first, last):
        publish(world, ("ab"[number % 2], b"%d" % number), qos=qos)
        world.tick(0.5)


def kept_from(world: LakeWorld) -> list[bytes]:
    """What the log has."""
    log = world.disk.log.reader
    page = replay_of(log, (b"+",), 1, by_time=True).next(1000)
    return [message.payload for message in page.messages]
