"""A real broker, asked and directed by its control socket while MQTT clients come and go."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.broker.policy import Limits
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.control.frames import decode_body
from holdfast.control.metrics import BROKER_METRICS, COUNTER, HISTOGRAM
from holdfast.control.words import (
    BAD_REQUEST,
    CLIENT_CHANGES,
    CLIENTS,
    NOT_FOUND,
    NOT_POSSIBLE,
    STATS,
    WORDS,
    ClientChanges,
    ClientDetail,
    ClientRow,
    ClientRows,
    Kicked,
    KickRequest,
    LogLevelRequest,
    NodeInfo,
    Nothing,
    Purged,
    Reloaded,
    SessionRequest,
    Stats,
    SubscriptionInfo,
    Subscriptions,
    SubscriptionsRequest,
    TakeoversRequest,
    Watch,
)
from holdfast.files.socket_path import find_socket, read_holder, socket_path
from holdfast.node.embedding import Node, running
from holdfast.node.lifecycle import reload
from holdfast.node.settings.tree import Listener, Security, Settings, Storage, Sys
from tests.control_peer import ControlPeer, control_peer

MAX_FRAME = 4096


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, so that the socket lies in it."""
    with TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


def settings(folder: Path | None, **more: object) -> Settings:
    storage = Storage(durability="memory") if folder is None else Storage(data=folder)
    listeners = {"default": Listener(port=0), "second": Listener(port=0)}
    return Settings(listeners=listeners, storage=storage, sys=Sys(interval_s=0), **more)  # type: ignore[arg-type]


@asynccontextmanager
async def controlled(folder: Path) -> AsyncIterator[tuple[Node, ControlPeer]]:
    async with running(settings(folder), grace_s=0) as node, control_peer(find_socket(folder)) as peer:
        yield node, peer


def client(node: Node, name: str, **options: object) -> Client:
    return Client(ConnectionOptions.from_url(node.url(), client_id=name, **options))


@asynccontextmanager
async def persistent(node: Node, name: str, **options: object) -> AsyncIterator[Client]:
    """A client whose session stays; it may be disconnected by the broker."""
    with suppress(LostError):
        async with client(node, name, clean_start=False, session_expiry_s=1000, **options) as connected:
            yield connected


def run(test: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


class Table:
    """The list of clients as one who watches keeps it."""

    def __init__(self, peer: ControlPeer) -> None:
        self._peer = peer
        self.rows: dict[str, ClientRow] = {}
        self.complete = False

    async def until(self, holds: Callable[[dict[str, ClientRow]], bool]) -> None:
        """Take pushes until something holds of the list."""
        while not (self.complete and holds(self.rows)):
            push = await self._peer.next_push()
            if push.topic == CLIENTS:
                part = decode_body(push.body, ClientRows)
                self.complete = part.last
                self.rows |= {row.session_id: row for row in part.rows}
            else:
                assert push.topic == CLIENT_CHANGES
                changes = decode_body(push.body, ClientChanges)
                self.rows |= {row.session_id: row for row in changes.rows}
                for name in changes.gone:
                    self.rows.pop(name, None)


def test_snapshot_and_changes_are_what_the_clients_did(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer), AsyncExitStack() as stack:
            await stack.enter_async_context(client(node, "early"))
            table = Table(peer)
            await peer.answer("watch", Watch(clients=True), Nothing)
            await table.until(lambda rows: rows.keys() == {"early"})
            async with client(node, "later") as later:
                await later.subscribe("a/#")
                await table.until(lambda rows: rows.keys() == {"early", "later"})
                await table.until(lambda rows: rows["later"].subscriptions == 1)
            await table.until(lambda rows: rows.keys() == {"early"})
            assert table.rows["early"].listener == "default"

    run(test)


def test_numbers_are_pushed_and_are_those_of_the_table(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            await peer.answer("watch", Watch(stats=True), Nothing)
            push = await peer.next_push()
            assert push.topic == STATS
            async with client(node, "a") as publisher:
                await publisher.subscribe("t")
                for _message in range(3):
                    await publisher.publish("t", b"x", qos=1)
                await publisher.settle()
                stats = await peer.answer("stats", Nothing(), Stats)
            assert len(push.body) < MAX_FRAME
            assert stats.numbers["messages_received_total"] == 3
            assert stats.labelled["connections"] == {"default": 1, "second": 0}
            assert stats.labelled["sessions"] == {"connected": 1, "offline": 0}
            assert stats.labelled["stored_messages"]["default"] in (0, 3), "as of the last look"
            assert stats.histograms["commit_messages"].sum == 3
            assert sum(stats.histograms["commit_seconds"].counts) >= 1
            assert stats.state == "taking"
            known = {metric.name: metric for metric in BROKER_METRICS}
            for name in (*stats.numbers, *stats.labelled, *stats.histograms):
                assert (name in stats.histograms) == (known[name].kind == HISTOGRAM)
                assert (name in stats.labelled) == bool(known[name].labels)
            for name, histogram in stats.histograms.items():
                assert len(histogram.counts) == len(known[name].bounds) + 1
            assert all(name.endswith("_total") for name, metric in known.items() if metric.kind == COUNTER)

    run(test)


def test_every_word_is_known(folder: Path) -> None:
    async def test() -> None:
        async with running(settings(folder)), control_peer(find_socket(folder), hello=False) as peer:
            assert set((await peer.hello()).words) == set(WORDS)

    run(test)


def test_the_node_says_what_it_is(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            info = await peer.answer("node", Nothing(), NodeInfo)
            assert (info.state, info.pid, info.durability) == ("taking", os.getpid(), "fsync")
            assert info.data_folder == str(folder)
            assert {one.name: one.port for one in info.listeners} == {
                name: port for name, (_host, port) in node.listeners.addresses().items()
            }
            node.broker.exchange.intake.refusing = 0x97
            assert (await peer.answer("node", Nothing(), NodeInfo)).state == "refusing"

    run(test)


def test_a_client_is_shown_in_full(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer), client(node, "a") as shown:
            await shown.subscribe("a/+", qos=1)
            await shown.subscribe("$share/g/b")
            detail = await peer.answer("client", SessionRequest("a"), ClientDetail)
            assert detail.connection is not None
            assert detail.connection.version == 5
            found = {one.filter: (one.qos, one.group, one.members) for one in detail.subscriptions}
            assert found == {"a/+": (1, "", 0), "$share/g/b": (0, "g", 1)}
            assert (await peer.refusal("cluster", Nothing())).code == NOT_FOUND
            assert "single node" in (await peer.refusal("takeovers", TakeoversRequest())).detail
            assert (await peer.refusal("client", SessionRequest("b"))).code == NOT_FOUND

    run(test)


def test_who_gets_a_topic_is_what_delivery_does(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer), client(node, "a") as one, client(node, "b") as other:
            await one.subscribe("plant/+/temp", qos=1)
            await one.subscribe("plant/#")
            await other.subscribe("$share/g/plant/#")
            await other.subscribe("elsewhere")

            async def found(**wanted: str) -> set[tuple[str, str]]:
                request = SubscriptionsRequest(**wanted)  # type: ignore[arg-type]
                answer = await peer.answer("subscriptions", request, Subscriptions)
                assert not answer.more
                return {(item.session_id, item.filter) for item in answer.items}

            assert await found(topic="plant/1/temp") == {
                ("a", "plant/+/temp"),
                ("a", "plant/#"),
                ("b", "$share/g/plant/#"),
            }
            assert await found(topic="elsewhere") == {("b", "elsewhere")}
            assert await found(topic="nowhere") == set()
            assert await found(under="plant/+/temp") == {("a", "plant/+/temp")}
            assert len(await found(under="#")) == 4
            for wrong in (
                {},
                {"topic": "a", "under": "b"},
                {"topic": "a/#"},
                {"under": "a/#/b"},
                {"under": "$share/g/a"},
            ):
                refusal = await peer.refusal("subscriptions", SubscriptionsRequest(**wrong))  # type: ignore[arg-type]
                assert refusal.code == BAD_REQUEST
            limited = await peer.answer("subscriptions", SubscriptionsRequest(under="#", limit=2), Subscriptions)
            assert (len(limited.items), limited.more) == (2, True)
            assert all(isinstance(item, SubscriptionInfo) for item in limited.items)

    run(test)


def test_a_kick_ends_the_connection_and_leaves_the_session(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            async with persistent(node, "a") as kicked:
                answer = await peer.answer("kick", KickRequest("a", "go away"), Kicked)
                assert answer.address == "127.0.0.1"
                with pytest.raises(LostError):
                    await kicked.receive()
            assert (await peer.refusal("kick", KickRequest("a"))).code == NOT_FOUND
            assert node.broker.sessions.record("a") is not None

    run(test)


def test_a_session_is_ended_and_a_queue_is_emptied(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer), client(node, "publisher") as publisher:
            async with persistent(node, "a") as subscriber:
                await subscriber.subscribe("t", qos=1)
            for _message in range(5):
                await publisher.publish("t", b"x", qos=1)
            await publisher.settle()
            assert (await peer.answer("purge_queue", SessionRequest("a"), Purged)).messages == 5
            assert (await peer.answer("purge_queue", SessionRequest("a"), Purged)).messages == 0
            await publisher.publish("t", b"new", qos=1)
            await publisher.settle()
            async with persistent(node, "a") as subscriber:
                message = await subscriber.receive()
                assert message.payload == b"new"
                subscriber.acknowledge(message)
            assert await peer.answer("end_session", SessionRequest("a"), Nothing) == Nothing()
            assert (await peer.refusal("end_session", SessionRequest("a"))).code == NOT_FOUND
            assert (await peer.refusal("purge_queue", SessionRequest("a"))).code == NOT_FOUND
            assert node.broker.exchange.counters.drops["purged"] == 5

    run(test)


def test_a_wrong_access_file_is_told_by_line_until_it_is_right_again(folder: Path) -> None:
    async def test() -> None:
        rules = folder / "rules.acl"
        rules.write_text("topic readwrite #\n")
        secured = settings(folder, security=Security(acl_file=rules))
        async with running(secured, grace_s=0) as node, control_peer(find_socket(folder)) as peer:
            rules.write_text("topic readwrite #\ntopic reed #\n")
            reload(node, lambda: secured)
            problem = (await peer.answer("stats", Nothing(), Stats)).reload_problem
            assert problem.startswith("access: ")
            assert "rules.acl:2" in problem
            rules.write_text("topic readwrite #\n")
            reload(node, lambda: secured)
            assert (await peer.answer("stats", Nothing(), Stats)).reload_problem == ""

    run(test)


def test_a_reload_says_what_changed_and_what_waits_and_what_was_wrong(folder: Path) -> None:
    async def test() -> None:
        async with controlled(folder) as (node, peer):
            assert (await peer.refusal("reload", Nothing())).code == NOT_POSSIBLE
            changed = settings(folder, limits=Limits(max_connections=7))
            changed.listeners["default"] = Listener(port=1)  # type: ignore[index]
            assert node.control is not None
            node.control.words.reload_all = lambda: reload(node, lambda: changed)
            outcome = await peer.answer("reload", Nothing(), Reloaded)
            assert [setting.key for setting in outcome.changed] == ["limits.max_connections"]
            assert outcome.changed[0].now == "7"
            assert [setting.key for setting in outcome.waiting] == ["listeners.default.port"]
            assert outcome.errors == {}
            stats = await peer.answer("stats", Nothing(), Stats)
            assert stats.numbers["reload_last_success_timestamp_seconds"] > 0

    run(test)


def test_the_level_of_the_log_belongs_to_the_process(folder: Path) -> None:
    async def test() -> None:
        levels: list[str] = []
        async with controlled(folder) as (node, peer):
            assert (await peer.refusal("log_level", LogLevelRequest("info"))).code == NOT_POSSIBLE
            assert node.control is not None
            node.control.words.set_log_level = levels.append
            assert (await peer.refusal("log_level", LogLevelRequest("loud"))).code == BAD_REQUEST
            await peer.answer("log_level", LogLevelRequest("debug"), Nothing)
        assert levels == ["debug"]

    run(test)


def test_nothing_is_gathered_when_nobody_looks_any_more(folder: Path) -> None:
    async def test() -> None:
        async with running(settings(folder)) as node:
            before = len(asyncio.all_tasks())
            async with control_peer(find_socket(folder)) as peer:
                await peer.answer("watch", Watch(stats=True, clients=True), Nothing)
                assert node.broker.connections.watch is not None
                assert len(asyncio.all_tasks()) == before + 4, "the connection, the numbers, the clients, the scan"
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert node.broker.connections.watch is None

    run(test)


def test_the_lock_file_names_the_socket_and_both_go_with_the_broker(folder: Path) -> None:
    async def test() -> None:
        async with running(settings(folder)):
            path = Path(read_holder(folder)["control"])
            assert path == folder / "control.sock"
        assert "control" not in read_holder(folder)
        assert not os.path.exists(path)  # noqa: ASYNC240

    run(test)


def test_a_folder_with_a_long_name_has_its_socket_elsewhere_and_leaves_nothing(folder: Path) -> None:
    async def test() -> None:
        long = folder / ("d" * 100)
        async with running(settings(long)), control_peer(find_socket(long)) as peer:
            path = find_socket(long)
            assert path.parent != long
            assert (await peer.answer("node", Nothing(), NodeInfo)).state == "taking"
        assert not os.path.exists(path)  # noqa: ASYNC240

    run(test)


def test_a_broker_in_memory_inside_a_program_has_no_socket() -> None:
    async def test() -> None:
        async with running(settings(None)) as node:
            assert node.control is not None
            assert not node.control._is_open

    run(test)


def test_a_broker_in_memory_with_a_process_of_its_own_is_found_by_the_folder_of_its_settings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))

    async def test() -> None:
        chosen = settings(None)
        path = socket_path(chosen.storage.data, on_disk=False)
        async with running(chosen, own_process=True), control_peer(path) as peer:
            info = await peer.answer("node", Nothing(), NodeInfo)
            assert (info.state, info.data_folder) == ("taking", "")
            stats = await peer.answer("stats", Nothing(), Stats)
            assert "disk_free_bytes" not in stats.numbers
        assert os.listdir(folder / "holdfast") == []

    run(test)


def test_a_socket_that_cannot_be_opened_does_not_stop_the_broker(folder: Path) -> None:
    async def test() -> None:
        os.mkdir(folder / "control.sock")
        async with running(settings(folder)) as node, client(node, "a") as connected:
            await connected.publish("t", b"", qos=1)
            await connected.settle()

    run(test)


def test_a_killed_broker_leaves_a_socket_that_the_next_one_replaces(folder: Path) -> None:
    async def test() -> None:
        code = "from holdfast.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", "--port", "0", "--data", str(folder)]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        while b'"listening"' not in await process.stderr.readline():
            pass
        async with control_peer(find_socket(folder)) as peer:
            assert (await peer.answer("node", Nothing(), NodeInfo)).pid == process.pid
            assert isinstance(await peer.answer("reload", Nothing(), Reloaded), Reloaded)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        assert os.path.exists(folder / "control.sock")  # noqa: ASYNC240
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_unix_connection(folder / "control.sock")
        async with controlled(folder) as (_node, peer):
            assert (await peer.answer("node", Nothing(), NodeInfo)).pid == os.getpid()

    run(test)
