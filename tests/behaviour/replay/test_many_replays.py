"""A thousand replays that join the present while publishers run, each compared with the log."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from holdfast.model.message import Message
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, SERVER, V5
from holdfast.topics.filters import levels_match, parse_filter
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Ack, Connect, Packet, Publish, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld
from tests.replays import replay_of
from tests.world import ORIGIN

TOPICS: Final = [f"p/{line}/{device}" for line in "abcde" for device in range(5)]
#: Narrow ones often, wide ones now and then: that is what the time goes into.
FILTERS: Final = [*TOPICS, *TOPICS, "p/a/+", "p/b/#", "+/c/1", "p/+/2", "+/+/3", "#"]
#: Publishers, in all shards.
WRITERS: Final = 6
BEFORE: Final = 1500
ROUNDS: Final = 50
READERS_PER_ROUND: Final = 10
#: Of a round, each with some messages and some turns of the loop.
STEPS: Final = 10
MESSAGES_PER_STEP: Final = 3
#: Rounds that a reader stays.
STAY: Final = 3


class Busy(DiskWorld):
    """A world that does not wait until everything is done: receipts come from the disk's own thread when they come."""

    def some_turns(self, turns: int) -> None:
        for _turn in range(turns):
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()


class Robot:
    """A client that answers by itself, a turn later, and notes what it gets."""

    def __init__(self, world: Busy, first: list[Packet]) -> None:
        self._world = world
        self._framer = Framer()
        self._answers: list[Packet] = []
        self.payloads: list[bytes] = []
        self.channel = world.broker.opened(self, ORIGIN)
        self.send(first)

    def send(self, packets: list[Packet]) -> None:
        data = b"".join(encode(packet, V5) for packet in packets)
        self._world._loop.call_soon(lambda: self._world.broker.received(self.channel, data))

    def write(self, data: bytes) -> None:
        before = len(self._answers)
        for packet in decode_all(self._framer, data, V5, SERVER):
            if isinstance(packet, Publish):
                self.payloads.append(packet.payload)
                if packet.qos:
                    self._answers.append(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
            elif isinstance(packet, Ack) and packet.kind in (PUBREC, PUBREL):
                self._answers.append(Ack(PUBREL if packet.kind == PUBREC else PUBCOMP, packet.packet_id))
        if self._answers and not before:
            self._world._loop.call_soon(self._answer)

    def _answer(self) -> None:
        answers, self._answers = self._answers, []
        self.send(answers)

    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def leave(self) -> None:
        self._world._loop.call_soon(lambda: self._world.broker.lost(self.channel))


class Reader(Robot):
    """A replay of some filter from some moment."""

    def __init__(self, world: Busy, number: int, chance: random.Random, moments: list[int]) -> None:
        self.number = number
        self.filter = chance.choice(FILTERS)
        earliest = chance.random() < 0.1
        self.from_us = 1 if earliest else chance.choice(moments)
        self.by_time = chance.random() < 0.15
        self.qos = chance.randrange(3)
        asked = [("replay-from", "earliest" if earliest else str(self.from_us))]
        if self.by_time:
            asked.append(("replay-speed", "100000000"))
        properties = Properties(
            receive_maximum=chance.choice((3, 20, 200)),
            session_expiry_interval=100 if chance.random() < 0.3 else None,
        )
        line = Subscription(parse_filter(self.filter.encode()), self.qos)
        super().__init__(
            world,
            [
                Connect(V5, f"reader-{number}", properties=properties),
                Subscribe(1, (line,), Properties(user_properties=tuple(asked))),
            ],
        )

    def check(self, log: list[Message], *, early: bool) -> None:
        """Everything that the log has for it, once, in the order of each shard and QoS; of each shard for 1 and 2.

        QoS 0 does not wait for the commit, nor does QoS 1 where it is early.
        """
        levels = tuple(self.filter.encode().split(b"/"))
        wanted = {topic.encode() for topic in TOPICS if levels_match(levels, topic.encode().split(b"/"), dollar=False)}
        expected = [m for m in log if m.topic in wanted and m.position_us >= self.from_us]
        line_of = {m.payload: (m.shard, m.qos if early else min(m.qos, 1)) for m in expected}
        told = f"reader {self.number}: {self.filter} with QoS {self.qos} from {self.from_us}"
        assert sorted(self.payloads) == sorted(line_of), told
        for line in set(line_of.values()):
            got = [payload for payload in self.payloads if line_of[payload] == line]
            assert got == [m.payload for m in expected if line_of[m.payload] == line], told


def publish_some(writers: list[Robot], count: int, first: int, chance: random.Random) -> None:
    for number in range(first, first + count):
        packet_id = number % 60_000 + 1
        qos = chance.randrange(3)
        publish = Publish(chance.choice(TOPICS), b"%d" % number, qos, packet_id if qos else 0)
        writers[number % WRITERS].send([publish])


def stored(world: Busy) -> list[Message]:
    """The log as it is, all shards."""
    replay = replay_of(world.disk.log.reader, (), 1, by_time=True)
    found: list[Message] = []
    while messages := replay.next(1000).messages:
        found += messages
    replay.close()
    return found


def start_writers(world: Busy) -> list[Robot]:
    writers = [Robot(world, [Connect(V5, f"writer-{number}")]) for number in range(WRITERS)]
    world.settle()
    return writers


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True], ids=["after the commit", "before the commit"])
def test_replays_join_the_present_without_a_gap_and_without_a_duplicate(tmp_path: Path, early: bool) -> None:
    """L13, L2: five hundred of them, from the disk, from memory, or live from the start; order is kept."""
    chance = random.Random(20)
    with Busy(tmp_path, shards=3, early=early) as world:
        writers = start_writers(world)
        for first in range(0, BEFORE, 100):
            publish_some(writers, 100, first, chance)
            world.settle()
            world.clock.advance(500)
        moments = [message.position_us for message in stored(world)]
        assert len(moments) == BEFORE
    with Busy(tmp_path, shards=3, early=early, start_us=1_700_000_001_000_000) as world:
        writers = start_writers(world)
        here: list[list[Reader]] = []
        checked = under_way = received = 0
        published = BEFORE
        for number in range(ROUNDS + STAY):
            if number < ROUNDS:
                first = number * READERS_PER_ROUND
                here.append([Reader(world, first + i, chance, moments) for i in range(READERS_PER_ROUND)])
            for _step in range(STEPS):
                publish_some(writers, MESSAGES_PER_STEP, published, chance)
                published += MESSAGES_PER_STEP
                world.clock.advance(chance.randrange(2000))
                world._loop.call_soon(world.broker.deadlines.fire)
                world.some_turns(chance.randrange(1, 5))
                if chance.random() < 0.5:
                    world.disk.engine.sync_now()
                under_way += sum(bool(client.replays) for client in world.broker.sessions.clients.values())
            moments.append(world.clock.wall_us())
            if number >= STAY:
                until_quiet(world)
                log = stored(world)
                for reader in here.pop(0):
                    reader.check(log, early=early)
                    checked += 1
                    received += len(reader.payloads)
                    reader.leave()
        assert checked == ROUNDS * READERS_PER_ROUND
        assert under_way > ROUNDS * READERS_PER_ROUND, "replays were under way while messages came"
        assert received > 20_000


def until_quiet(world: Busy) -> None:
    """Until nobody is sent anything more."""
    before = -1
    while (now := world.broker.exchange.counters.messages_out) != before:
        before = now
        world.advance(0.001)
