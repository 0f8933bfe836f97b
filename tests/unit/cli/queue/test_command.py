"""`holdfast queue`: what is printed, what is moved, what is refused."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.model.clock import Clock
from holdfast.node.system_clock import SystemClock
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.queue_folders import QueueFolders
from holdfast.storage.journal.store import JournalStore
from holdfast.storage.queue_addresses import parse_backend
from tests.conformance.delayed_store import DelayedWorld
from tests.disk_world import DiskWorld, back, payloads
from tests.journal_world import pack
from tests.slow_world import kept


def queue(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["queue", *map(str, arguments)])


def fill(root: Path, *, killed: bool = False) -> None:
    async def work() -> None:
        store = await JournalStore.open(root, SystemClock(), JournalOptions(durability="os"))
        await store.append([pack("a", 1, 2, 3), pack("b/ü", 4)])
        await store.acknowledge([("a", [2])])
        await store.release("a", [1])
        if killed:
            store._journal.close = lambda: None  # type: ignore[method-assign]
        await store.close()

    asyncio.run(work())


@pytest.fixture(params=[False, True], ids=["closed", "killed"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    fill(tmp_path / "j", killed=request.param)
    return f"journal:{tmp_path / 'j'}"


def rows(backend: str) -> list[tuple[object, ...]]:
    listed = queue("list", backend, "--json")
    assert listed.exit_code == 0, listed.output
    return [(row["client"], row["messages"], row["serial"], row["number"]) for row in json.loads(listed.output)]


FULL = [("a", 2, 3, 3), ("b/ü", 1, 1, 4)]


def test_queues_are_listed_summed_up_and_looked_into(journal: str) -> None:
    assert rows(journal) == FULL
    assert "b/ü" in queue("list", journal).output
    assert json.loads(queue("stats", journal, "--json").output)["messages"] == 3
    assert queue("stats", journal).output.startswith("2 queues, 0 of them empty: 3 messages, ")
    shown = [json.loads(line) for line in queue("peek", journal, "a", "--json").output.splitlines()]
    assert [(one["serial"], one["number"], one["released"], one["payload"]) for one in shown] == [
        (1, 1, True, "payload 1"),
        (3, 3, False, "payload 3"),
    ]
    assert queue("peek", journal, "a", "--limit", 1).output.endswith(" t payload 1 (PUBREC came)\n")
    assert queue("peek", journal, "nobody").output == ""


def test_a_purged_queue_goes_on_with_its_next_serial(journal: str) -> None:
    assert queue("purge", journal).exit_code == 2
    assert queue("purge", journal, "--client", "a").output == "2 messages of 1 queues removed\n"
    assert rows(journal) == [("a", 0, 3, 3), FULL[1]]
    assert queue("purge", journal, "--all").exit_code == 0
    assert [row[1] for row in rows(journal)] == [0, 0]


def test_queues_move_to_another_home_and_are_gone_from_the_old_one(journal: str, tmp_path: Path) -> None:
    target = f"journal:{tmp_path / 'new'}"
    kept = queue("migrate", "--from", journal, "--to", target, "--keep", "--client", "a", "--json")
    assert json.loads(kept.stdout) == {"queues": 1, "messages": 2, "failed": {}}
    assert rows(journal) == FULL
    moved = queue("migrate", "--from", journal, "--to", target)
    assert moved.stdout == "2 queues moved, 3 messages; all were compared\n"
    assert rows(journal) == []
    assert rows(target) == FULL
    again = queue("migrate", "--from", journal, "--to", target)
    assert (again.exit_code, again.stdout) == (0, "0 queues moved, 0 messages; all were compared\n")
    assert queue("migrate", "--from", target, "--to", target).exit_code == 2


def test_a_client_that_has_a_queue_in_the_new_home_stays_where_it_is(journal: str, tmp_path: Path) -> None:
    async def work() -> None:
        store = await JournalStore.open(tmp_path / "new", SystemClock())
        await store.append([pack("a", 77)])
        await store.close()

    asyncio.run(work())
    target = f"journal:{tmp_path / 'new'}"
    moved = queue("migrate", "--from", journal, "--to", target, "--json")
    assert moved.exit_code == 1
    assert list(json.loads(moved.stdout)["failed"]) == ["a"]
    assert rows(journal) == FULL[:1]
    assert rows(target) == [("a", 1, 1, 77), FULL[1]]


def test_queues_go_into_a_file_and_come_back_once(journal: str, tmp_path: Path) -> None:
    """S11"""
    file, target = tmp_path / "queues.hfq", f"journal:{tmp_path / 'new'}"
    assert queue("export", journal, "-o", file).stdout.startswith(f"{file}: 2 queues, 3 messages, ")
    assert queue("import", file, target, "--client", "a").stdout.startswith("1 queues imported, 2 messages")
    assert rows(target) == FULL[:1]
    again = queue("import", file, target, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout) == {"queues": 2, "messages": 3, "failed": {}}
    assert rows(target) == FULL
    assert queue("import", file, target, "--client", "nobody").exit_code == 2
    file.write_bytes(file.read_bytes()[:-1])
    assert queue("import", file, f"journal:{tmp_path / 'third'}").exit_code == 1


def test_an_import_does_not_touch_another_queue_of_its_client(journal: str, tmp_path: Path) -> None:
    """S11: importing over an existing queue is refused."""
    file, target = tmp_path / "queues.hfq", tmp_path / "new"
    queue("export", journal, "-o", file)

    async def others() -> None:
        store = await JournalStore.open(target, SystemClock(), JournalOptions(durability="os"))
        await store.append([pack("a", 7), pack("b/ü", 4)])
        await store.acknowledge([("b/ü", [1])])
        await store.close()

    asyncio.run(others())
    before = rows(f"journal:{target}")

    refused = queue("import", file, f"journal:{target}")

    assert refused.exit_code == 1
    assert refused.stderr.count("already, and not a part of this one") == 2
    assert rows(f"journal:{target}") == before == [("a", 1, 1, 7), ("b/ü", 0, 1, 4)]


def test_a_client_without_a_session_gets_what_was_imported_for_it(journal: str, tmp_path: Path) -> None:
    """S11: with the data folder of its broker named, its session is made; one that looks elsewhere is left alone."""
    file, target, data = tmp_path / "queues.hfq", tmp_path / "new", tmp_path / "data"
    queue("export", journal, "-o", file)
    with DiskWorld(data) as world:
        kept(world, "b/ü")

    done = queue("import", file, f"journal:{target}", "--data", data, "--json")

    assert done.exit_code == 1
    row = json.loads(done.stdout)
    assert (row["queues"], list(row["failed"])) == (1, ["b/ü"])
    assert "whose messages wait in the log" in row["failed"]["b/ü"]

    async def opened(clock: Clock) -> QueueStore:
        return await JournalStore.open(target, clock, JournalOptions(durability="os"))

    with DelayedWorld(data, opened) as broker:
        assert payloads(back(broker, "a")) == [b"payload 3"]


def test_folders_get_other_names(journal: str, tmp_path: Path) -> None:
    """S13."""
    assert queue("relayout", journal, "--fragments", "1,1").stdout == "2 queues moved; folders have 1,1 letters now\n"
    assert QueueFolders.load(tmp_path / "j").fragments == (1, 1)
    assert rows(journal) == FULL
    for wrong in ("x", "40"):
        assert queue("relayout", journal, "--fragments", wrong).exit_code == 2
    assert queue("relayout", "redis://h", "--fragments", "2").exit_code == 2


def test_a_journal_that_a_broker_has_can_be_looked_at_and_not_changed(tmp_path: Path) -> None:
    fill(tmp_path / "j")
    backend = f"journal:{tmp_path / 'j'}"

    async def work() -> None:
        store = await JournalStore.open(tmp_path / "j", SystemClock())
        await store.append([pack("a", 9)])
        assert await asyncio.to_thread(rows, backend) == [("a", 3, 4, 9), FULL[1]]
        for arguments in (["purge", backend, "--all"], ["relayout", backend, "--fragments", "2"]):
            refused = await asyncio.to_thread(queue, *arguments)
            assert refused.exit_code == 2
            assert "in use by pid" in refused.output
        await store.close()

    asyncio.run(work())


def test_an_address_says_which_home_and_never_a_password() -> None:
    assert parse_backend("redis+cluster://u@a:1,b:2#p:") == ("redis+cluster", None, "redis+cluster://u@a:1,b:2", "p:")
    assert parse_backend("postgresql://u@h/d?sslmode=require#s")[2:] == ("postgresql://u@h/d?sslmode=require", "s")
    for wrong, why in (
        ("x", "right would be"),
        ("redis://u:secret@h", "holds a password"),
        ("journal:", "right would"),
    ):
        refused = queue("list", wrong)
        assert (refused.exit_code, why in refused.output) == (2, True)
        assert "secret" not in refused.output
    missing = queue("list", "redis://127.0.0.1:1", "--password-env", "NOT_SET_ANYWHERE")
    assert (missing.exit_code, "there is no such variable" in missing.output) == (2, True)


def test_a_home_of_another_kind_needs_the_sessions_that_are_to_look_there(journal: str) -> None:
    refused = queue("migrate", "--from", journal, "--to", "redis://127.0.0.1:1")
    assert (refused.exit_code, "--data" in refused.output) == (2, True)
    assert rows(journal) == FULL
