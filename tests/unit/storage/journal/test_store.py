"""The journal behind its contract: one thread, one commit for what has gathered, nothing on the loop."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.durable.queues.queue_store import Appended, QueueStore
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.storage.journal.commit.commit_file import CommitFile, commit_files
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.store import JournalStore
from tests.journal_world import SECOND_US, entry, limits, pack


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


async def opened(root: Path, clock: ManualClock | None = None, options: JournalOptions | None = None) -> JournalStore:
    store = await JournalStore.open(root, clock or ManualClock(), options)
    contract: QueueStore = store
    assert contract is store
    return store


async def numbers(store: JournalStore, client_id: str) -> list[int]:
    return [one.number for one in await store.read(client_id, 0, 1000)]


@on_a_loop
async def test_the_contract_in_a_row(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    first, second = await store.append([pack("a", 1, 2, 3), pack("b", 4)])
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    assert (first.serials, second.serials) == ([1, 2, 3], [1])
    assert [one.owed.serial for one in await store.read("a", 1, 1)] == [2]
    await store.acknowledge([("a", [1, 99]), ("nobody", [1])])
    await store.release("a", [2, 99])
    assert [(one.number, one.released) for one in await store.read("a", 0, 9)] == [(2, True), (3, False)]
    assert (await store.size("a")).messages == 2
    assert await store.last("a") == (3, 3)
    assert await store.last("nobody") == (0, 0)
    assert sorted([client_id async for client_id in store.clients()]) == ["a", "b"]
    await store.drop(["a"])
    assert await store.last("a") == (0, 0)
    await store.close()
    again = await opened(tmp_path)
    assert [client_id async for client_id in again.clients()] == ["b"]
    assert await numbers(again, "b") == [4]
    await again.close()
    with pytest.raises(MisuseError, match="closed"):
        await again.size("b")


@on_a_loop
async def test_what_gathers_during_a_sync_shares_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: a thousand clients are not a thousand syncs."""
    store = await opened(tmp_path)
    entered, leave = threading.Event(), threading.Event()
    real = CommitFile.sync

    def slow(file: CommitFile) -> None:
        entered.set()
        assert leave.wait(60)
        real(file)

    monkeypatch.setattr(CommitFile, "sync", slow)
    first = asyncio.ensure_future(store.append([pack("c0", 1)]))
    await asyncio.to_thread(entered.wait, 60)
    others = [asyncio.ensure_future(store.append([pack(f"c{number}", number)])) for number in range(2, 200)]
    looking = asyncio.ensure_future(store.read("c0", 0, 1))
    await asyncio.sleep(0)
    assert not first.done()
    assert not looking.done()
    leave.set()
    await asyncio.gather(first, looking, *others)
    assert store._journal.syncs == 2
    assert [one.number for one in looking.result()] == [1]
    await store.close()


@on_a_loop
async def test_packs_of_one_client_keep_their_order_however_they_gather(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await asyncio.gather(*[store.append([pack("c", number)]) for number in range(1, 300)])
    assert await numbers(store, "c") == list(range(1, 300))
    await store.close()


@on_a_loop
async def test_a_second_process_is_told_who_has_the_journal(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    with pytest.raises(SettingsError, match="in use by pid"):
        await opened(tmp_path)
    await store.close()
    await (await opened(tmp_path)).close()


@on_a_loop
async def test_sweeping_finds_what_has_expired_also_in_queues_that_are_closed(tmp_path: Path) -> None:
    """S9."""
    clock = ManualClock()
    store = await opened(tmp_path, clock, JournalOptions(max_open_queues=1))
    for number in range(1, 6):
        one = pack(f"c{number}", limits=limits(9))
        one.entries.extend([entry(number, expires_us=clock.wall_us() + SECOND_US), entry(number + 100)])
        await store.append([one])
    assert await store.sweep(clock.wall_us()) == 0
    clock.advance(SECOND_US)
    assert await store.sweep(clock.wall_us()) == 5
    assert await store.sweep(clock.wall_us()) == 0
    assert [await numbers(store, f"c{number}") for number in (1, 5)] == [[101], [105]]
    await store.close()


@on_a_loop
async def test_a_long_commit_file_is_replaced_without_anybody_waiting_and_none_is_left_in_the_end(
    tmp_path: Path,
) -> None:
    """S10, S12: what a start has to go through stays bounded."""
    store = await opened(tmp_path, options=JournalOptions(commit_bytes=2000, max_file_messages=4))
    for number in range(1, 101):
        await store.append([pack("c", number)])
        await store.acknowledge([("c", [number - 3])])
    assert sum(path.stat().st_size for path in commit_files(tmp_path)) < 20_000
    await store.close()
    assert commit_files(tmp_path) == []
    again = await opened(tmp_path)
    assert await numbers(again, "c") == [98, 99, 100]
    assert again.recovered.commits == 0
    await again.close()


@on_a_loop
async def test_one_damaged_queue_is_one_failed_pack(tmp_path: Path) -> None:
    """S5, contract 6."""
    store = await opened(tmp_path)
    await store.append([pack("broken", 1), pack("sound", 2)])
    await store.close()
    again = await opened(tmp_path)
    log = again._journal.folders.find("broken") / "queue.log"
    log.write_bytes(b"x")
    broken, sound = await again.append([pack("broken", 3), pack("sound", 4)])
    assert "set aside" in str(broken)
    assert isinstance(sound, Appended)
    assert await numbers(again, "sound") == [2, 4]
    await again.close()
