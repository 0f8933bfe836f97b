"""Queues on their way: to another backend, into a file and back, into other folders; and looked at from outside."""

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueStore
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.queue_folders import QueueFolders, queue_id, relayout
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.journal.view import JournalView
from holdfast.storage.queue_copy import BackendSource, copy_queue
from holdfast.storage.queue_file import QueueFile, QueueFileWriter
from tests.journal_world import PLENTY, SECOND_US, JournalWorld, entry, pack
from tests.memory_queue_store import MemoryQueueStore

CLOCK = ManualClock()


async def filled(backend: QueueStore) -> None:
    """A queue with gaps everywhere: at the front, in the middle, at the end."""
    entries = [entry(number, b"%d" % number * number, qos=1 + number % 2) for number in range(5, 60, 2)]
    await backend.append([AppendBatch("c", entries, PLENTY), pack("d", 3)])
    await backend.acknowledge([("c", [1, 2, 3, 9, 10, 20, 27, 28]), ("d", [1])])
    await backend.release("c", [4, 6])


async def contents(backend: QueueStore, client_id: str) -> list[tuple[int, int, bool, bytes]]:
    found: list[QueueEntry] = await backend.read(client_id, 0, 1000)
    return [(one.owed.serial, one.number, one.released, one.message.payload) for one in found]


async def copied(source: QueueStore, target: QueueStore, client_id: str = "c") -> int:
    return (await copy_queue(BackendSource(source), target, client_id, CLOCK.wall_us, lambda _count: None)).messages


async def open_journal(root: Path) -> JournalStore:
    return await JournalStore.open(root, CLOCK, JournalOptions(durability="os"))


def test_a_copy_has_every_message_at_its_place_and_goes_on_with_the_next_serial(tmp_path: Path) -> None:
    async def work() -> None:
        source, target = MemoryQueueStore(CLOCK), await open_journal(tmp_path)
        await filled(source)
        assert await copied(source, target) == 20
        assert await copied(source, target, "d") == 0
        assert await contents(target, "c") == await contents(source, "c")
        assert await target.last("c") == await source.last("c") == (28, 59)
        assert await target.last("d") == (1, 3)
        # Said again, it changes nothing.
        assert await copied(source, target) == 20
        assert await target.last("c") == (28, 59)
        await target.close()

    asyncio.run(work())


class Failing(MemoryQueueStore):
    """A backend that is gone after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(CLOCK)
        self.calls = calls

    def _count(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise ConnectionError

    async def append(self, packs: list[AppendBatch]) -> list[Appended | Exception]:
        self._count()
        return await super().append(packs)

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        self._count()
        await super().acknowledge(done)

    async def release(self, client_id: str, serials: list[int]) -> None:
        self._count()
        await super().release(client_id, serials)


def test_a_copy_that_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was: between fillers, before they are acknowledged, before PUBREC is noted."""
    monkeypatch.setattr("holdfast.storage.queue_copy.PAGE", 4)

    async def work(calls: int) -> bool:
        source, target = MemoryQueueStore(CLOCK), Failing(calls)
        await filled(source)
        interrupted = False
        try:
            await copied(source, target)
        except ConnectionError:
            interrupted = True
        target.calls = 1000
        assert await copied(source, target) == 20
        assert await contents(target, "c") == await contents(source, "c")
        assert await target.last("c") == (28, 59)
        return interrupted

    assert [asyncio.run(work(calls)) for calls in range(40)].count(True) > 10


def test_a_client_that_has_another_queue_in_the_target_keeps_it() -> None:
    async def work() -> None:
        source, target = MemoryQueueStore(CLOCK), MemoryQueueStore(CLOCK)
        await filled(source)
        await target.append([pack("c", 7)])
        with pytest.raises(PermanentError, match="the target has a queue of 'c' already"):
            await copied(source, target)
        assert [number for _, number, _, _ in await contents(target, "c")] == [7]
        assert await target.last("c") == (1, 7)
        await target.append([pack("c", 1000)])
        with pytest.raises(PermanentError, match="already"):
            await copied(source, target)

    asyncio.run(work())


def test_queues_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    """S11."""

    async def work() -> None:
        source, target = MemoryQueueStore(CLOCK), await open_journal(tmp_path / "j")
        await filled(source)
        with (tmp_path / "q").open("wb") as file:
            writer = QueueFileWriter(file)
            for client_id in ("c", "d"):
                writer.queue(client_id, *await source.last(client_id))
                for one in await source.read(client_id, 0, 1000):
                    writer.message(one)
            writer.end()
        filed = QueueFile(tmp_path / "q")
        assert [(queue.client_id, queue.messages) for queue in filed.queues.values()] == [("c", 20), ("d", 0)]
        for client_id in filed.queues:
            await copy_queue(filed, target, client_id, CLOCK.wall_us, lambda _count: None)
        assert await contents(target, "c") == await contents(source, "c")
        assert await target.last("d") == (1, 3)
        await target.close()

    asyncio.run(work())
    whole = (tmp_path / "q").read_bytes()
    chance = random.Random(7)
    for _ in range(150):
        at = chance.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        for data in (whole[:at], bytes(flipped)):
            (tmp_path / "q").write_bytes(data)
            with pytest.raises(PermanentError):
                QueueFile(tmp_path / "q")
    (tmp_path / "q").write_bytes(whole + b"x")
    with pytest.raises(PermanentError):
        QueueFile(tmp_path / "q")


def test_relayout_moves_every_queue_and_goes_on_after_an_interruption(tmp_path: Path) -> None:
    """S13: both layouts are readable meanwhile."""
    world = JournalWorld(tmp_path)
    for number in range(1, 31):
        world.append(f"c{number}", number)
    world.journal.close()

    class StopError(Exception):
        pass

    def stop(moved: int) -> None:
        if moved == 10:
            raise StopError

    with pytest.raises(StopError):
        relayout(tmp_path, (1, 3), stop)
    world.restart()
    assert [world.numbers(f"c{number}") for number in range(1, 31)] == [[number] for number in range(1, 31)]
    world.append("new", 99)
    name = queue_id("new")
    assert world.folder("new") == tmp_path / "queues" / name[0] / name[1:4] / name[4:]
    lengths = {len(folder.relative_to(tmp_path / "queues").parts) for _, folder in world.journal.folders.each()}
    assert lengths == {3, 5}
    world.journal.remove(["c30"])
    world.journal.close()
    with pytest.raises(SettingsError, match="finish that first"):
        relayout(tmp_path, (4,), stop)
    assert relayout(tmp_path, (1, 3), lambda _moved: None) == 30 - 10 - (0 if _moved_first(tmp_path) else 1)
    folders = QueueFolders.load(tmp_path)
    assert (folders.fragments, folders.former) == ((1, 3), None)
    assert {len(folder.relative_to(tmp_path / "queues").parts) for _, folder in folders.each()} == {3}
    assert relayout(tmp_path, (1, 3), lambda _moved: None) == 0
    world.restart()
    assert [world.numbers(f"c{number}") for number in range(1, 30)] == [[number] for number in range(1, 30)]


def _moved_first(root: Path) -> bool:
    """Whether `c30`, which was dropped, had been among the ten that were moved: they go in the order of their ids."""
    return sorted(queue_id(f"c{number}") for number in range(1, 31)).index(queue_id("c30")) < 10


def test_a_journal_can_be_looked_at_while_another_process_has_it(tmp_path: Path) -> None:
    async def work() -> None:
        clock = ManualClock()
        store = await JournalStore.open(tmp_path, clock, JournalOptions(max_file_messages=3))
        await store.append([pack("c", *range(1, 11)), pack("d", 50)])
        await store.acknowledge([("c", [1, 2, 3, 4, 6])])
        view = JournalView(tmp_path, clock)
        contract: QueueStore = view
        assert [one.number for one in await contract.read("c", 0, 9)] == [5, 7, 8, 9, 10]
        assert (await view.size("c")).messages == 5
        assert await view.last("c") == (10, 10)
        assert await view.last("nobody") == (0, 0)
        assert sorted([client_id async for client_id in view.clients()]) == ["c", "d"]
        before = logs_of(tmp_path)
        with pytest.raises(SettingsError, match="only looked at"):
            await view.drop(["c"])
        assert "only looked at" in str((await view.append([pack("c", 11)]))[0])
        assert logs_of(tmp_path) == before
        # While it is being written, what is seen is a whole state, whatever files come and go.
        for number in range(100, 200):
            await store.append([pack("c", number)])
            await store.acknowledge([("c", [number - 94])])
            seen = [one.number for one in await view.read("c", 0, 1000)]
            assert seen == sorted(seen)
            assert number in seen
        clock.advance(SECOND_US)
        await store.close()

    asyncio.run(work())


@pytest.mark.slow
def test_many_queues_and_a_long_one_stay_within_bounds_of_files_and_memory(tmp_path: Path) -> None:
    """S12: two files a queue, an open file or two for each queue that is open, 32 bytes of index a message."""
    options = JournalOptions(durability="os", max_open_queues=64)

    async def work() -> None:
        store = await JournalStore.open(tmp_path, CLOCK, options)
        for start in range(0, 10_000, 500):
            await store.append([pack(f"c{number}", number + 1) for number in range(start, start + 500)])
        journal = store._journal
        assert len(journal._open) == 64
        assert open_files(tmp_path) <= 2 * 64 + 4
        assert journal.commit_bytes <= options.commit_bytes
        count = 0
        async for client_id in store.clients():
            assert client_id.startswith("c")
            count += 1
        assert count == 10_000
        for start in range(0, 100_000, 2000):
            await store.append([pack("long", *range(start + 20_000, start + 22_000))])
        queue = journal._queue("long")
        assert queue.messages == 100_000
        assert len(queue.files) == 1
        assert sum(file.index_bytes() for file in queue.files) <= 40 * 100_000
        assert (await store.read("long", 99_999, 10))[0].number == 119_999
        await store.close()
        names = [path.name for _, folder in journal.folders.each() for path in folder.iterdir()]
        assert len(names) <= 2 * 10_001
        again = await JournalStore.open(tmp_path, CLOCK, options)
        assert again.recovered.commits == 0
        assert len(again._journal._open) == 0
        assert (await again.size("long")).messages == 100_000
        assert (await again.read("c77", 0, 10))[0].number == 78
        await again.close()

    asyncio.run(work())


def logs_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.log")}


def open_files(root: Path) -> int:
    """How many files below a folder this process has open."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{number}").startswith(str(root))
    return count
