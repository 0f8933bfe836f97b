"""A data folder with one day of messages, written through the log as a broker does it, by a clock of its own.

    plant/line-07/dev-000123/temperature     50 lines, devices at random, 4 measures, evenly through the day
    plant/meter/power                        one topic with a number every 10 s
    minute/t-00001                           topics that speak once a minute, in the last three minutes

Every generation lasts two hours, so that all but the last are sealed, as with a retention of a day. Marks of the heads
are written once a minute. Payloads are JSON with one number.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.console.topics import MEASURES, METER, device_topic
from bench.storage.store import BATCH, OUTSTANDING, Store
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import DAY_S, SECOND_US
from holdfast.storage.rocks.log.head_marks import open_marks

_METER_S = 10
#: The last minutes of the day, in which the topics below `minute/` speak.
_TALK_S = 180
_GENERATION_S = 2 * 3600
#: A batch waits for so long at most until it is full.
_BATCH_S = 300
_SEED = 20_261_118


@dataclass(frozen=True)
class PastDay:
    """What is stored: [from, to) in µs."""

    messages: int
    devices: int
    #: Topics that speak once a minute.
    talkers: int
    from_us: int
    to_us: int


def due(total: int, second: int) -> int:
    """How many of `total` messages fall into a second of the day."""
    return total * (second + 1) // DAY_S - total * second // DAY_S


def second_of_messages(second: int, chance: random.Random, devices: int, wanted: int, talkers: int) -> Iterator[str]:
    """The topics of one second."""
    if second % _METER_S == 0:
        yield METER
    for _message in range(due(wanted, second)):
        yield device_topic(chance.randrange(devices), chance.choice(MEASURES))
    left_s = DAY_S - second
    if left_s <= _TALK_S:
        place = second % 60
        for talker in range(talkers * place // 60, talkers * (place + 1) // 60):
            yield f"minute/t-{talker:05d}"


def write_day(folder: Path, messages: int, devices: int, talkers: int, tell: Callable[[int], None]) -> PastDay:
    """Fill a folder; the day ends now. `tell` gets how many seconds of the day are done."""
    from_us = (time.time_ns() // 1000 // SECOND_US - DAY_S) * SECOND_US
    clock = ManualClock(from_us)
    chance = random.Random(_SEED)
    store = Store(folder, clock=clock)
    try:
        marks = open_marks(store.log, clock.monotonic_us)
        marks.write()
        batch: list[Message] = []
        count = 0
        for second in range(DAY_S):
            at_us = clock.wall_us()
            for topic in second_of_messages(second, chance, devices, messages, talkers):
                # A number that moves slowly, as most measured ones do.
                payload = b'{"t":%.1f}' % (20 + second % 600 / 60 + chance.random())
                batch.append(Message(topic.encode(), payload, 1, ClientId(_publisher(topic)), at_us))
            if len(batch) >= BATCH or second % _BATCH_S == _BATCH_S - 1:
                count += len(batch)
                _commit(store, batch)
                batch = []
            marks.look()
            if second and second % _GENERATION_S == 0:
                store.wait()
                store.maintenance.rotate(store.log.zone_logs["default"])
                tell(second)
            clock.advance(SECOND_US)
        store.wait()
        store.segments.write_all()
        marks.write()
    finally:
        store.close()
    return PastDay(count, devices, talkers, from_us, clock.wall_us())


def _commit(store: Store, batch: list[Message]) -> None:
    """In pieces that are no larger than those of a broker under load."""
    for begin in range(0, len(batch), BATCH):
        store.write(batch[begin : begin + BATCH], outstanding=OUTSTANDING)
    store.maintenance.write_index_slice()
    store.segments.write_all()


def _publisher(topic: str) -> str:
    return topic.rsplit("/", 1)[0].replace("/", "-")
