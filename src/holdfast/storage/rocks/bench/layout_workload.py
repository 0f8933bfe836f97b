"""The messages of the layout bench, and the questions asked: the same for every layout and in every run.

    factory/line-07/dev-000123/temperature      50 lines, the devices spread over them, 4 measures

Devices take turns at random. One whose turn it is publishes its four measures, one after the other. The last turn is
that of a device that never published before: who asks for it has to look through everything. Payloads are random bytes:
what compression saves on disk, it saves on topics, client ids and headers alone. Messages are committed 500 at a time;
within a commit positions follow each other, as in a node.
"""

import random
from array import array
from collections.abc import Iterator
from typing import Final

from holdfast.model.ids import ClientId
from holdfast.model.message import Message

LINES: Final = 50
MEASURES: Final = (b"temperature", b"pressure", b"speed", b"state")
#: 10,000 messages per second.
STEP_US: Final = 100
#: Messages of a commit under load.
COMMIT: Final = 500
START_US: Final = 1_700_000_000_000_000

#: Devices that are asked for, one after the other.
_SAMPLES: Final = 5
_SEED: Final = 20_240_229
_NOISE_BYTES: Final = 1 << 20

#: The levels of a filter, and how many messages it has to find.
Sample = tuple[tuple[bytes, ...], int]


class Query:
    """A kind of replay: filters of equal difficulty, each with the number of messages it has to find."""

    def __init__(self, key: str, label: str, samples: list[Sample], lo_us: int = 0) -> None:
        self.key: Final = key
        self.label: Final = label
        self.samples: Final = samples
        self.lo_us: Final = lo_us


#: Keys and labels of the queries, in their order.
QUERIES: Final = {
    "topic": "one topic",
    "device": "one device, all its topics",
    "last": "one device that published last",
    "line": "`+` in the middle: one measure of a line",
    "measure": "several `+`: one measure of all",
    "all": "`#`",
    "late": "`#`, the last 1%",
}


def device_name(device: int) -> bytes:
    return b"dev-%06d" % device


def line_name(line: int) -> bytes:
    return b"line-%02d" % line


class Workload:
    """See the module. The number of messages is rounded down to whole turns."""

    def __init__(self, messages: int, devices: int, payload_bytes: int) -> None:
        self.devices: Final = devices
        self._payload_bytes: Final = payload_bytes
        chance = random.Random(_SEED)
        draw = chance.random
        turns = array("I", [int(draw() * devices) for _ in range(max(1, messages // len(MEASURES)))])
        turns[-1] = devices
        self._turns: Final = turns
        self.messages: Final = len(self._turns) * len(MEASURES)
        self._noise: Final = chance.randbytes(_NOISE_BYTES + payload_bytes)

    def position_us(self, serial: int) -> int:
        """The position of message number `serial`, from 1."""
        commit, row = divmod(serial - 1, COMMIT)
        return START_US + commit * COMMIT * STEP_US + row

    def messages_in_order(self) -> Iterator[Message]:
        """Every message, with the time it came."""
        noise, size = self._noise, self._payload_bytes
        serial = at = 0
        for device in self._turns:
            name = device_name(device)
            publisher = ClientId(name.decode())
            head = b"factory/%b/%b/" % (line_name(device % LINES), name)
            for measure in MEASURES:
                serial += 1
                at = (at + 104_729) % _NOISE_BYTES
                yield Message(head + measure, noise[at : at + size], 1, publisher, self.position_us(serial))

    def commits(self) -> Iterator[list[Message]]:
        """Every message with its position, commit by commit."""
        commit: list[Message] = []
        for message in self.messages_in_order():
            message.position_us = message.received_us
            commit.append(message)
            if len(commit) == COMMIT:
                yield commit
                commit = []
        if commit:
            yield commit

    def queries(self) -> list[Query]:
        turns = self._turns
        step = max(1, len(turns) // (_SAMPLES + 1))
        asked = list(dict.fromkeys(turns[step : (_SAMPLES + 1) * step : step] or turns))[:_SAMPLES]
        topic: list[Sample] = []
        device_topics: list[Sample] = []
        line_measure: list[Sample] = []
        for device in asked:
            count = turns.count(device)
            line = device % LINES
            head = (b"factory", line_name(line), device_name(device))
            topic.append(((*head, MEASURES[0]), count))
            device_topics.append(((*head, b"#"), count * len(MEASURES)))
            of_line = sum([other % LINES == line for other in turns])
            line_measure.append(((b"factory", line_name(line), b"+", MEASURES[0]), of_line))
        measure: list[Sample] = [((b"factory", b"+", b"+", MEASURES[0]), len(turns))]
        last = turns[-1]
        late = max(1, self.messages // 100)
        everything: list[Sample] = [((b"#",), self.messages)]
        found: dict[str, tuple[list[Sample], int]] = {
            "topic": (topic, 0),
            "device": (device_topics, 0),
            "last": ([((b"factory", line_name(last % LINES), device_name(last), b"#"), len(MEASURES))], 0),
            "line": (line_measure, 0),
            "measure": (measure, 0),
            "all": (everything, 0),
            "late": ([((b"#",), late)], self.position_us(self.messages - late + 1)),
        }
        return [Query(key, label, *found[key]) for key, label in QUERIES.items()]
