"""`python -m bench.cluster.apply_speed`: the processor time of a node for each message of the logs, in microseconds.

    apply   a record is decoded, decided and written as one RocksDB batch; the exchange looks for subscribers and finds
            none. That is what every node does for the messages of all others.
    write   a batch of the exchange becomes items and a record. That is what the node of the publishers does beside it.

The ordered log is in memory: what NATS and the network cost is not in these numbers. `all` counts every thread of the
process, RocksDB's as well; `loop` the thread of the event loop alone.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import logging
import pstats
import statistics
import tempfile
import time
from pathlib import Path
from typing import cast

import structlog

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.registry.log_registry import LogRegistry
from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.cluster.vnodes.vnode_leader import registration_of
from holdfast.cluster.vnodes.writer import VnodeWriter
from holdfast.durable.commit import Batch
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import Answered, OrderedLog
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.items import ChangeSettings, Claim, Item, MessageItem
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, encode_record, revision_of
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from holdfast.topics.subscription import SubscriptionRecord

CLUSTER = bytes(range(16))
PUBLISHERS = 20
TOPICS = 500
PAYLOAD = b"x" * 64
#: Entries that a reader hands to the applier at once.
AT_ONCE = 16


class Stopwatch:
    """Processor time of a stretch, of the process and of this thread."""

    def __init__(self) -> None:
        self._all_s = self._loop_s = 0.0
        self.all_s = self.loop_s = 0.0

    def __enter__(self) -> Stopwatch:
        self._all_s, self._loop_s = time.process_time(), time.thread_time()
        return self

    def __exit__(self, *_unused: object) -> None:
        self.all_s += time.process_time() - self._all_s
        self.loop_s += time.thread_time() - self._loop_s


class Node:
    """A node of a cluster with one vnode: real tables on a disk, a broker without clients, a log in memory."""

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.engine = Engine.open(folder)
        self.stores = VnodeStores(self.engine, clock, 1)
        self.ordered = MemoryOrderedLog(clock)
        delivered: dict[int, int] = {}
        timers = asyncio.get_running_loop()
        vnode = self.stores.vnodes[0]
        self.log = ClusterLog(1, vnode.positions, {}, delivered, timers)
        self.applier = VnodeApplier(self.ordered, CLUSTER, vnode, self.log.listener(0))
        messages = self.stores.log

        def new_queue(session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
            rule = OwedRule(session_id, subscriptions, upgrade_qos=False)
            return LogQueue(messages, delivered, rule, lambda: MemoryQueue(10, 10), lambda _session, _lost: None)

        stores = Stores(
            self.log,
            self.stores.retained,
            self.stores.sessions,
            LogRegistry(self.log, lambda session_id: registration_of(vnode, session_id), timers),
            new_queue,
            deciding_log=self.log,
            life=NodeLife(1, 1),
            attach=self.log.attach_receipts,
            stores_all=True,
            delivered=delivered,
        )
        self.broker = Broker(Policy(), clock, Authenticator(), stores)


def message(number: int, publisher: int) -> Message:
    topic = b"plant/line-%d/sensor-%d/temperature" % (number % 10, number % TOPICS)
    return Message(topic, PAYLOAD, 1, ClientId(f"publisher-{publisher}"), time.time_ns() // 1000)


def records_of(count: int, size: int) -> list[bytes]:
    """A vnode from its first record on: settings, claims of another node's publishers, then their messages."""
    zone = VnodeZone("default", 0, "paged", {})
    first: list[Item] = [ChangeSettings(1, VnodeSettings((zone,)))]
    now_us = time.time_ns() // 1000
    first += [Claim(f"publisher-{one}", one + 1, (now_us // 1000, 2, one), 0) for one in range(PUBLISHERS)]
    sessions = [SessionEntry(f"publisher-{one}", revision_of(1, one + 1)) for one in range(PUBLISHERS)]
    found = [encode_record(ClusterRecord(CLUSTER, 2, 2, 1, now_us, 0, [], first))]
    for number in range(count):
        items: list[Item] = []
        for index in range(size):
            publisher = (number + index // 10) % PUBLISHERS
            items.append(MessageItem(publisher, message(number * size + index, publisher)))
        found.append(encode_record(ClusterRecord(CLUSTER, 2, 2, number + 2, now_us, 0, sessions, items)))
    return found


async def apply(size: int, total: int, profile: cProfile.Profile | None) -> tuple[float, float]:
    """Microseconds per message of the process and of its loop, for records of `size` messages."""
    with tempfile.TemporaryDirectory(prefix="holdfast-apply-") as folder:
        node = Node(Path(folder))
        log = node.ordered
        records = records_of(total // size, size)
        async with node.broker:
            log.hold_reads = True
            task = asyncio.get_running_loop().create_task(node.applier.run())
            watch = Stopwatch()
            for begin in range(0, len(records), AT_ONCE):
                for record in records[begin : begin + AT_ONCE]:
                    log.append(record, lambda _result: None)
                while not log.readings():  # noqa: ASYNC110 - what it waits for is in memory
                    await asyncio.sleep(0)
                if profile is not None:
                    profile.enable()
                with watch:
                    log.deliver(log.readings()[0])
                    while node.applier.place.sequence < min(begin + AT_ONCE, len(records)):  # noqa: ASYNC110
                        await asyncio.sleep(0)
                if profile is not None:
                    profile.disable()
            task.cancel()
        stored = sum([part.head_serial for part in node.stores.log.parts()])
        assert stored == total // size * size, stored
        node.engine.close()
    return watch.all_s / stored * 1e6, watch.loop_s / stored * 1e6


class SilentLog:
    """Answers every append, and is read by nobody."""

    def append(self, _record: bytes, answered: Answered) -> None:
        answered(1)


async def write(size: int, total: int, profile: cProfile.Profile | None) -> tuple[float, float]:
    """Microseconds per message from a batch of `size` messages to its record."""
    clock, timers = SystemClock(), asyncio.get_running_loop()
    log = ClusterLog(1, lambda _session_id: {}, {}, {}, timers)
    watch = Stopwatch()
    for number in range(total // size):
        if number % AT_ONCE == 0:  # nothing is settled here
            log.end()
            log.begin([VnodeWriter(cast(OrderedLog, SilentLog()), CLUSTER, 1, 1, clock, timers, lambda: 0)])
            for publisher in range(PUBLISHERS):
                log.hold(f"publisher-{publisher}", publisher + 1, has_replaced=False)
        batch = Batch(number + 1)
        batch.messages.extend([message(index, (number + index // 10) % PUBLISHERS) for index in range(size)])
        if profile is not None:
            profile.enable()
        with watch:
            log.write(batch)
        if profile is not None:
            profile.disable()
    log.end()
    return watch.all_s / (total // size * size) * 1e6, watch.loop_s / (total // size * size) * 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.apply_speed", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="of each row (default: 100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (default: 3)")
    parser.add_argument("--profile", action="store_true", help="where the time goes, by function")
    wanted = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print("what    messages a record   all (µs)   loop (µs)")
    for name, measure in (("apply", apply), ("write", write)):
        for size in (1, 20, 200):
            total = wanted.messages // 10 if size == 1 else wanted.messages
            profile = cProfile.Profile() if wanted.profile and size > 20 else None
            found = [asyncio.run(measure(size, total, profile)) for _round in range(wanted.rounds)]
            whole, loop = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{name:<8} {size:>16} {whole:>10.2f} {loop:>11.2f}", flush=True)
            if profile is not None:
                pstats.Stats(profile).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    main()
