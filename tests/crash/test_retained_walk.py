"""The broker killed while it sends retained messages to new subscriptions (Q7)."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Packet, Publish, Suback, Subscribe, Subscription
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Ledger
from tests.crash.broker_process import DEADLINE_S, BrokerProcess

MESSAGES = 200
KILLS = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Taps:
    """Something came, to whomever."""

    def __init__(self) -> None:
        self.tap = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.tap.clear()
                await self.tap.wait()


class Retainer(SteadyClient):
    """Publishes retained messages with QoS 2, all at once, to a broker that nobody kills meanwhile."""

    def __init__(self, port: int, ledger: Ledger, taps: Taps) -> None:
        super().__init__("retainer", port, ledger, random.Random(0), V5)
        self.completed = 0
        self._taps = taps

    def begin(self, *, resumed: bool) -> None:
        assert not resumed
        for number in range(1, MESSAGES + 1):
            self.send(Publish(f"r/{number:04}", b"%d" % number, 2, number, retain=True))

    def handle(self, packet: Packet) -> None:
        assert isinstance(packet, Ack)
        if packet.kind == PUBREC:
            self.send(Ack(PUBREL, packet.packet_id))
        else:
            self.completed += 1
            self._taps.tap.set()


class Walker(SteadyClient):
    """Subscribes once, and takes what it is owed by that."""

    def __init__(self, qos: int, port: int, ledger: Ledger, taps: Taps) -> None:
        super().__init__(f"qos-{qos}", port, ledger, random.Random(qos), V5, receive_maximum=5)
        self.qos = qos
        self.got: list[int] = []
        self.promised = False
        self._has: set[int] = set()
        self._taps = taps

    def distinct(self) -> int:
        return len(set(self.got))

    def begin(self, *, resumed: bool) -> None:
        if not resumed:
            self.send(Subscribe(1, (Subscription(parse_filter(b"r/#"), self.qos),)))

    def handle(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.promised = True
        elif isinstance(packet, Publish):
            if packet.packet_id not in self._has:
                self.got.append(int(packet.payload))
            if packet.qos == 2:
                self._has.add(packet.packet_id)
            self.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._has.discard(packet.packet_id)
            self.send(Ack(PUBCOMP, packet.packet_id))
        self._taps.tap.set()


def some_have(walkers: list[Walker], count: int) -> bool:
    return max(walker.distinct() for walker in walkers) >= count


async def walk(folder: Path) -> tuple[BrokerProcess, Ledger, list[Walker]]:
    broker = BrokerProcess(folder / "data", folder / "log")
    ledger = Ledger()
    taps = Taps()
    await broker.start()
    await broker.listening()
    async with asyncio.TaskGroup() as tasks:
        retainer = Retainer(broker.port, ledger, taps)
        publishing = tasks.create_task(retainer.run())
        await taps.until(lambda: retainer.completed == MESSAGES)
        retainer.leave()
        await publishing
        walkers = [Walker(qos, broker.port, ledger, taps) for qos in (1, 2)]
        running = [tasks.create_task(walker.run()) for walker in walkers]
        await taps.until(lambda: all(walker.promised for walker in walkers))
        for kill in range(KILLS):
            count = 1 + kill * MESSAGES // (KILLS + 1)
            await taps.until(partial(some_have, walkers, count))
            await broker.kill()
            await broker.start()
        await taps.until(lambda: min(walker.distinct() for walker in walkers) == MESSAGES)
        for walker in walkers:
            walker.leave()
        await asyncio.gather(*running)
    await broker.stop()
    return broker, ledger, walkers


def test_retained_messages_that_were_promised_arrive_though_the_broker_is_killed(tmp_path: Path) -> None:
    """Q7: all of them, in order; those of QoS 2 once."""
    broker, ledger, (once, twice) = asyncio.run(walk(tmp_path))
    expected = list(range(1, MESSAGES + 1))
    assert list(dict.fromkeys(once.got)) == expected
    assert twice.got == expected
    assert broker.starts == KILLS + 1
    assert ledger.violations == []
    assert broker.complaints() == []
