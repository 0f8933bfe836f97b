"""Shares of clients: each client is in one of them, and sums do not depend on who had which."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.durable.queues.queue_store import QueueEntry
from holdfast.node.system_clock import SystemClock
from holdfast.pipeline.migrate.task import MigrateJob, MigrateSums, copy_share, list_clients, preview_queues, task_of
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.queue_copy import fingerprint
from tests.journal_world import pack

CLIENTS = [f"device-{number}" for number in range(20)]


def fill(root: Path, *clients: str, first: int = 1) -> None:
    async def job() -> None:
        store = await JournalStore.open(root, SystemClock(), JournalOptions(durability="os"))
        for number, client_id in enumerate(clients):
            numbers = range(first + 10 * number, first + 10 * number + 1 + number % 4)
            await store.append([pack(client_id, *numbers)])
            await store.acknowledge([(client_id, [2])])
            await store.release(client_id, [3])
        await store.close()

    asyncio.run(job())


def held(root: Path) -> dict[str, tuple[tuple[int, int], list[bytes]]]:
    async def entries(store: JournalStore, client_id: str) -> list[QueueEntry]:
        return await store.read(client_id, 0, 1000)

    async def job() -> dict[str, tuple[tuple[int, int], list[bytes]]]:
        store = await JournalStore.open(root, SystemClock())
        names = [client_id async for client_id in store.clients()]
        found = {
            name: (await store.last(name), [fingerprint(one) for one in await entries(store, name)]) for name in names
        }
        await store.close()
        return found

    return asyncio.run(job())


@pytest.fixture
def job(tmp_path: Path) -> MigrateJob:
    fill(tmp_path / "old", *CLIENTS)
    (tmp_path / "new").mkdir()
    return MigrateJob(f"journal:{tmp_path / 'old'}", f"journal:{tmp_path / 'new'}", SystemClock())


def copied(job: MigrateJob, shares: int) -> MigrateSums:
    total = MigrateSums()
    for share in range(shares):
        total.add(asyncio.run(copy_share(job, share, shares)))
    return total


def test_shares_are_all_clients_and_each_of_them_once(job: MigrateJob, tmp_path: Path) -> None:
    listed = asyncio.run(list_clients(job))

    done = copied(job, 3)

    assert (done.queues, done.listed, done.copied, done.failed) == (20, listed.listed, 20, 0)
    assert held(tmp_path / "new") == held(tmp_path / "old")
    assert (
        done.messages
        == asyncio.run(preview_queues(job)).messages
        == sum(len(queue[1]) for queue in held(tmp_path / "new").values())
    )
    assert len({task_of(client_id, 3) for client_id in CLIENTS}) == 3


def test_a_run_that_ended_in_the_middle_is_given_again_with_other_shares(job: MigrateJob, tmp_path: Path) -> None:
    asyncio.run(copy_share(job, 1, 3))
    begun = held(tmp_path / "new")
    assert 0 < len(begun) < 20

    done, again = copied(job, 2), copied(job, 5)

    assert held(tmp_path / "new") == held(tmp_path / "old")
    assert asdict(done) == asdict(again)


def test_other_messages_are_another_checksum_and_other_clients_another_list(job: MigrateJob, tmp_path: Path) -> None:
    """As many messages, at the same places."""
    fill(tmp_path / "other", *CLIENTS, first=2)
    (tmp_path / "copy").mkdir()
    other = MigrateJob(f"journal:{tmp_path / 'other'}", f"journal:{tmp_path / 'copy'}", job.clock)

    one, two = copied(job, 1), copied(other, 1)

    assert (one.messages, one.listed) == (two.messages, two.listed)
    assert one.checksum != two.checksum
    fill(tmp_path / "other", "one more")
    assert asyncio.run(list_clients(other)).listed != two.listed


def test_a_queue_that_is_something_else_there_is_left_alone_and_named(job: MigrateJob, tmp_path: Path) -> None:
    fill(tmp_path / "new", "device-7", "device-8", first=5000)
    there = held(tmp_path / "new")

    done = copied(job, 3)

    assert (done.queues, done.copied, done.failed) == (20, 18, 2)
    assert sorted(reason.partition(":")[0] for reason in done.reasons) == ["'device-7'", "'device-8'"]
    assert "the target has a queue of 'device-7' already" in " ".join(done.reasons)
    now = held(tmp_path / "new")
    assert {name: now[name] for name in there} == there


def test_clients_are_chosen_by_a_pattern(job: MigrateJob, tmp_path: Path) -> None:
    some = MigrateJob(job.source, job.target, job.clock, "device-?")

    assert copied(some, 2).copied == 10
    assert sorted(held(tmp_path / "new")) == CLIENTS[:10]


def test_a_password_is_not_in_the_words_about_a_migration() -> None:
    assert "secret" not in repr(MigrateJob("a", "b", SystemClock(), "*", "secret", "secret"))
