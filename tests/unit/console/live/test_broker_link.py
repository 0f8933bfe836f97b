"""The connection to the broker, against a broker on a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.live.broker_link import BrokerLink
from holdfast.console.problems import ProblemError
from holdfast.control.frames import encode_body, encode_frame
from holdfast.control.words import (
    CLIENT_CHANGES,
    CLIENTS,
    CLIENTS_AGAIN,
    VERSION,
    Answer,
    ClientChanges,
    ClientRows,
    Hello,
    Kicked,
    KickRequest,
    NodeInfo,
    Nothing,
    Stats,
    Watch,
)
from tests.unit.console.fake_broker import NO_SUCH_CLIENT, NODE, FakeBroker, fake_broker
from tests.unit.console.stats_frames import frame


class Told:
    """Notes what the link says."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self._waiting: asyncio.Event = asyncio.Event()

    def _note(self, what: object) -> None:
        self.said.append(what)
        self._waiting.set()
        self._waiting = asyncio.Event()

    async def until(self, what: object) -> None:
        while what not in self.said:
            await self._waiting.wait()

    def broker_connected(self, node: NodeInfo) -> None:
        self._note(node)

    def broker_lost(self) -> None:
        self._note("lost")

    def stats_came(self, stats: Stats) -> None:
        self._note(stats)

    def clients_begin(self) -> None:
        self._note("clients begin")

    def client_rows_came(self, rows: ClientRows) -> None:
        self._note(rows)

    def client_changes_came(self, changes: ClientChanges) -> None:
        self._note(changes)


@asynccontextmanager
async def linked(path: Path) -> AsyncIterator[tuple[FakeBroker, BrokerLink, Told]]:
    told = Told()
    link = BrokerLink(lambda: path, told, "test")
    async with fake_broker(path) as broker:
        running = asyncio.create_task(link.run())
        try:
            yield broker, link, told
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def run(work: Callable[[FakeBroker, BrokerLink, Told], Awaitable[None]], folder: Path) -> None:
    async def inside() -> None:
        async with asyncio.timeout(20), linked(folder / "s") as (broker, link, told):
            await work(broker, link, told)

    coroutine: Coroutine[Any, Any, None] = inside()
    asyncio.run(coroutine)


def test_it_says_hello_and_watches_numbers_alone(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        await broker.until(lambda: broker.watched.stats)
        assert not broker.watched.clients
        broker.push_stats(frame(1))
        await told.until(frame(1))

    run(work, tmp_path)


def test_a_look_before_the_broker_has_introduced_itself_begins_one_snapshot(tmp_path: Path) -> None:
    """A second begin in the middle of a snapshot would make all clients before it look gone."""

    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        del broker.answers["node"]
        await broker.until(lambda: bool(broker.requests))
        assert link.is_connected
        link.watch_clients(wanted=True)
        broker.send(encode_frame(Answer(1, encode_body(NODE))))
        await told.until(NODE)
        await broker.until(lambda: broker.watched.clients)
        broker.push(CLIENTS, ClientRows((), last=True))
        await told.until(ClientRows((), last=True))
        assert [body for word, body in broker.requests if word == "watch"] == [Watch(stats=True, clients=True)]
        assert told.said.count("clients begin") == 1

    run(work, tmp_path)


def test_slices_of_an_earlier_snapshot_do_not_end_the_one_that_is_asked_for(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        await broker.until(lambda: broker.watched.stats)
        del broker.answers["watch"]
        link.watch_clients(wanted=True)
        await broker.until(lambda: broker.watched.clients)
        broker.push(CLIENTS, ClientRows((), last=True))
        broker.push(CLIENT_CHANGES, ClientChanges((), ("a",)))
        broker.push_stats(frame(1))
        await told.until(frame(1))
        assert told.said == [NODE, frame(1)]
        number_of_watch = 3
        broker.send(encode_frame(Answer(number_of_watch, encode_body(Nothing()))))
        broker.push(CLIENTS, ClientRows((), last=True))
        await told.until(ClientRows((), last=True))
        assert told.said == [NODE, frame(1), "clients begin", ClientRows((), last=True)]

    run(work, tmp_path)


def test_clients_are_watched_while_somebody_looks(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        link.watch_clients(wanted=True)
        await broker.until(lambda: broker.watched.clients)
        broker.push(CLIENTS, ClientRows((), last=True))
        await told.until(ClientRows((), last=True))
        broker.push(CLIENT_CHANGES, ClientChanges((), ("a",)))
        await told.until(ClientChanges((), ("a",)))
        told.said.clear()
        broker.push(CLIENTS_AGAIN, Nothing())
        await told.until("clients begin")
        link.watch_clients(wanted=False)
        await broker.until(lambda: not broker.watched.clients)

    run(work, tmp_path)


def test_it_connects_again_and_watches_what_it_watched(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        link.watch_clients(wanted=True)
        await broker.until(lambda: broker.watched.clients)
        broker.requests.clear()
        broker.cut()
        await told.until("lost")
        await broker.until(lambda: broker.connections == 2 and broker.requests[-1:] == [("watch", broker.watched)])
        assert broker.watched.clients

    run(work, tmp_path)


def test_requests_are_answered_or_refused_in_the_brokers_words(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        broker.answers["kick"] = Kicked("10.0.0.1")
        assert await link.request("kick", KickRequest("a")) == Kicked("10.0.0.1")
        broker.refusals["kick"] = NO_SUCH_CLIENT
        with pytest.raises(ProblemError) as refused:
            await link.request("kick", KickRequest("b"))
        assert (refused.value.status, refused.value.detail) == (404, "there is no such client")

    run(work, tmp_path)


def test_a_broker_that_hangs_gives_503_and_its_late_answer_is_passed_over(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        with pytest.raises(ProblemError) as failed:
            await link.request("kick", KickRequest("a"), timeout_s=0.01)
        assert failed.value.status == 503
        broker.answers["kick"] = Kicked("x")
        assert await link.request("kick", KickRequest("a")) == Kicked("x")

    run(work, tmp_path)


def test_requests_fail_at_once_when_the_connection_is_lost(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        asked = asyncio.create_task(link.request("kick", KickRequest("a")))
        await broker.until(lambda: ("kick", KickRequest("a")) in broker.requests)
        broker.cut()
        with pytest.raises(ProblemError) as failed:
            await asked
        assert failed.value.status == 503

    run(work, tmp_path)


def test_a_broker_without_a_word_is_named_older(tmp_path: Path) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        broker.hello = Hello(VERSION, VERSION, "older", ("node", "watch"))
        told.said.clear()
        broker.cut()
        await told.until(NODE)
        with pytest.raises(ProblemError) as failed:
            await link.request("reload", Nothing())
        assert failed.value.status == 501
        assert "older" in failed.value.detail

    run(work, tmp_path)


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\0\0\0\x01\xc1", b"\0\0\0\x02\x80\x80GET / HTTP/1.1"])
def test_garbage_ends_the_connection_and_nothing_else(tmp_path: Path, garbage: bytes) -> None:
    async def work(broker: FakeBroker, link: BrokerLink, told: Told) -> None:
        await told.until(NODE)
        broker.send(garbage)
        await told.until("lost")
        told.said.clear()
        await told.until(NODE)

    run(work, tmp_path)


def test_without_a_broker_requests_fail_with_503(tmp_path: Path) -> None:
    link = BrokerLink(lambda: None, Told(), "test")
    with pytest.raises(ProblemError) as failed:
        asyncio.run(link.request("reload", Nothing()))
    assert failed.value.status == 503
