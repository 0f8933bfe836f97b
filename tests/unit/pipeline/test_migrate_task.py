"""Shares of clients: each client is in one of them, and sums do not depend on who had which."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.durable.queue_store import Entry
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline.migrate_task import Migration, Sums, copy_share, list_clients, look, share_of
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.queue_copy import fingerprint
from tests.journal_world import pack

CLIENTS = [f"device-{number}" for number in range(20)]


def fill(root: Path, *clients: str, first: int = 1) -> None:
    async def work() -> None:
        store = await JournalStore.open(root, SystemClock(), JournalOptions(durability="os"))
        for number, client_id in enumerate(clients):
            numbers = range(first + 10 * number, first + 10 * number + 1 + number % 4)
            await store.append([pack(client_id, *numbers)])
            await store.acknowledge([(client_id, [2])])
            await store.release(client_id, [3])
        await store.close()

    asyncio.run(work())


def held(root: Path) -> dict[str, tuple[tuple[int, int], list[bytes]]]:
    async def entries(store: JournalStore, client_id: str) -> list[Entry]:
        return await store.read(client_id, 0, 1000)

    async def work() -> dict[str, tuple[tuple[int, int], list[bytes]]]:
        store = await JournalStore.open(root, SystemClock())
        names = [client_id async for client_id in store.clients()]
        found = {
            name: (await store.last(name), [fingerprint(one) for one in await entries(store, name)]) for name in names
        }
        await store.close()
        return found

    return asyncio.run(work())


@pytest.fixture
def work(tmp_path: Path) -> Migration:
    fill(tmp_path / "old", *CLIENTS)
    (tmp_path / "new").mkdir()
    return Migration(f"journal:{tmp_path / 'old'}", f"journal:{tmp_path / 'new'}", SystemClock())


def copied(work: Migration, shares: int) -> Sums:
    total = Sums()
    for share in range(shares):
        total.add(asyncio.run(copy_share(work, share, shares)))
    return total


def test_shares_are_all_clients_and_each_of_them_once(work: Migration, tmp_path: Path) -> None:
    listed = asyncio.run(list_clients(work))

    done = copied(work, 3)

    assert (done.queues, done.listed, done.copied, done.failed) == (20, listed.listed, 20, 0)
    assert held(tmp_path / "new") == held(tmp_path / "old")
    assert (
        done.messages
        == asyncio.run(look(work)).messages
        == sum(len(queue[1]) for queue in held(tmp_path / "new").values())
    )
    assert len({share_of(client_id, 3) for client_id in CLIENTS}) == 3


def test_a_run_that_ended_in_the_middle_is_given_again_with_other_shares(work: Migration, tmp_path: Path) -> None:
    asyncio.run(copy_share(work, 1, 3))
    begun = held(tmp_path / "new")
    assert 0 < len(begun) < 20

    done, again = copied(work, 2), copied(work, 5)

    assert held(tmp_path / "new") == held(tmp_path / "old")
    assert asdict(done) == asdict(again)


def test_other_messages_are_another_checksum_and_other_clients_another_list(work: Migration, tmp_path: Path) -> None:
    """As many messages, at the same places."""
    fill(tmp_path / "other", *CLIENTS, first=2)
    (tmp_path / "copy").mkdir()
    other = Migration(f"journal:{tmp_path / 'other'}", f"journal:{tmp_path / 'copy'}", work.clock)

    one, two = copied(work, 1), copied(other, 1)

    assert (one.messages, one.listed) == (two.messages, two.listed)
    assert one.checksum != two.checksum
    fill(tmp_path / "other", "one more")
    assert asyncio.run(list_clients(other)).listed != two.listed


def test_a_queue_that_is_something_else_there_is_left_alone_and_named(work: Migration, tmp_path: Path) -> None:
    fill(tmp_path / "new", "device-7", "device-8", first=5000)
    there = held(tmp_path / "new")

    done = copied(work, 3)

    assert (done.queues, done.copied, done.failed) == (20, 18, 2)
    assert sorted(reason.partition(":")[0] for reason in done.reasons) == ["'device-7'", "'device-8'"]
    assert "the target has a queue of 'device-7' already" in " ".join(done.reasons)
    now = held(tmp_path / "new")
    assert {name: now[name] for name in there} == there


def test_clients_are_chosen_by_a_pattern(work: Migration, tmp_path: Path) -> None:
    some = Migration(work.source, work.target, work.clock, "device-?")

    assert copied(some, 2).copied == 10
    assert sorted(held(tmp_path / "new")) == CLIENTS[:10]


def test_a_password_is_not_in_the_words_about_a_migration() -> None:
    assert "secret" not in repr(Migration("a", "b", SystemClock(), "*", "secret", "secret"))
