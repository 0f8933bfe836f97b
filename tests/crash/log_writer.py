"""The child process of the log's crash tests: it publishes with known numbering until it dies, and prints receipts.

Message n of a publisher on a topic has n as its payload, from 1 on without a hole. Which message is published next
follows from how many there are, so that the process can go on after a crash by looking into the log.
"""

import queue
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.replay import LogReplay
from holdfast.durable.zones import OS, Zone
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.log.startup import open_log
from tests.replays import replay_of

PUBLISHERS = 5
TOPICS = 7
BATCH = 9
#: Batches after which a generation begins, and the topics become others.
ROTATE = 40

Key = tuple[str, bytes]


#: Small, so that a segment is made every few batches.
SEGMENT_SIZE = SegmentSize(messages=400, commits=6)


def zones(layout: str) -> tuple[list[Zone], Zone]:
    """One zone is strict, with two shards and few children to a level; the other is not synced for its receipts."""
    lax = Zone("lax", ((b"lax", b"#"),), durability=OS, layout=layout)
    return [lax], Zone("default", shards=2, layout=layout, thresholds=(2, 3))


def open_folder(folder: Path, layout: str = "learned") -> RocksLog:
    listed, default = zones(layout)
    engine = Engine.open(folder, reserve_bytes=0)
    return open_log(engine, listed, default, [], SystemClock(), "test")


def start_writer(folder: Path, layout: str = "learned") -> subprocess.Popen[bytes]:
    """Prints `receipt <batch> <messages so far>` with each receipt, and before it a line per message of the batch."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.log_writer", str(folder), layout],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )


def read_all(replay: LogReplay) -> list[Message]:
    found: list[Message] = []
    while True:
        page = replay.next(1_000)
        found.extend(page.messages)
        if page.at_end:
            return found


def counts(messages: list[Message]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for message in messages:
        key = (message.publisher, message.topic)
        found[key] = found.get(key, 0) + 1
    return found


def line(message: Message) -> str:
    text = f"{message.publisher} {message.topic.decode()} {message.payload.decode()}"
    return f"{text} {message.shard} {message.position_us}"


def _write_for_ever(folder: Path, layout: str) -> None:
    log = open_folder(folder, layout)
    maintenance = Maintenance(log)
    segments = SegmentWriter(log, SEGMENT_SIZE)
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    sent = counts(read_all(replay_of(log.reader, (b"#",), 0)))
    waiting: list[tuple[int, list[Message]]] = []

    def receive(receipt: Receipt) -> None:
        lines: list[str] = []
        while waiting and waiting[0][0] <= receipt.number:
            lines.extend(map(line, waiting.pop(0)[1]))
        print("\n".join([*lines, f"receipt {receipt.number}"]), flush=True)

    log.attach(posted.put, receive)
    print("receipt 0", flush=True)
    total = sum(sent.values())
    number = 0
    while True:
        number += 1
        batch = Batch(number)
        for _ in range(BATCH):
            total += 1
            top = "lax" if total % 4 == 0 else f"plant/{total % 3}"
            topic = f"{top}/{total % TOPICS}/t{total // 500 % 5}".encode()
            publisher = ClientId(f"p{total % PUBLISHERS}")
            sent[publisher, topic] = sent.get((publisher, topic), 0) + 1
            batch.messages.append(Message(topic, b"%d" % sent[publisher, topic], 1, publisher, 0))
        waiting.append((number, batch.messages))
        receipt = log.write(batch)
        if receipt is not None:
            receive(receipt)
        if number % ROTATE == 0:
            maintenance.rotate(log.zone_logs["default"])
        if number % 7 == 0:
            maintenance.write_index_slice()
        segments.write_all()
        while not posted.empty() or len(waiting) > 20:
            posted.get()()


if __name__ == "__main__":
    # Standard output is for receipts.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    _write_for_ever(Path(sys.argv[1]), sys.argv[2])
