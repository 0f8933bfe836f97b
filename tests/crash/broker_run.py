"""A broker under load that is killed at random instants, its clients, and the verdict on what they saw.

    python -m tests.crash.broker_run --kills 100 --seed 7
    python -m tests.crash.broker_run --kills 100 --queue redis --server-kills 0.1

runs by hand; the tests run the same, shorter. With `--queue redis` or `--queue postgres` the run starts a server of its
own that syncs every write.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisServer
from holdfast.model.protocol import PUBACK, V5, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Packet, Publish, Suback, Subscribe, Subscription
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Ledger
from tests.crash.broker_process import BrokerProcess
from tests.crash.broker_publisher import Publisher
from tests.crash.broker_subscriber import Subscriber
from tests.crash.repetitions import describe_repetitions, freeze, unread_bytes

#: Events between two deaths, at most, for each ten subscribers: what they get again after a death counts as well.
_MOST_EVENTS = 1500
#: Seconds that events may take.
_PATIENCE_S = 20.0
#: Whether a group keeps its place in the log when the broker dies while none of its members is connected.
GROUPS_SURVIVE = True
#: Subscribers that come while the run goes on, at most.
_MOST_LATE = 5
#: Seconds without anything new after which nothing more is expected.
_QUIET_S = 8.0

End = Callable[[BrokerProcess], Awaitable[None]]
QueueServer = RedisServer | PostgresServer


@contextmanager
def queue_server(queue: str) -> Iterator[tuple[QueueServer | None, tuple[str, ...]]]:
    """The server that a kind of client queue needs, which syncs every write, and the settings that use it."""
    server: QueueServer | None = None
    if queue == "redis":
        server = RedisServer(appendonly="yes", appendfsync="always")
    elif queue == "postgres":
        server = PostgresServer()
    if server is None:
        yield None, (f"sessions.queue={queue}",)
        return
    try:
        yield server.start(), (f"sessions.queue={queue}", f"{queue}.url={server.url}")
    finally:
        server.close()


class RetainedProbe(SteadyClient):
    """Subscribes once, on a new session, and keeps what is retained."""

    def __init__(
        self, name: str, port: int, ledger: Ledger, dice: random.Random, *, may_be_behind: bool = False
    ) -> None:
        """`may_be_behind`: a node of a cluster may show an older value first, and sends the newer one as a message."""
        super().__init__(name, port, ledger, dice, V5)
        self._may_be_behind = may_be_behind
        self.values: dict[str, int] = {}
        self.done = asyncio.Event()
        #: What was acknowledged when SUBSCRIBE was sent: anything older is wrong.
        self.least: dict[str, int] = {}
        self._subscribed = False

    def begin(self, *, resumed: bool) -> None:
        if not self._subscribed:
            self.least = {
                topic: sent.last_acknowledged()
                for topic, sent in self.ledger.sent.items()
                if topic.startswith("state/") and sent.last_acknowledged()
            }
            self.send(Subscribe(1, (Subscription(parse_filter(b"state/#"), 1),)))

    def handle(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self._subscribed = True
        elif isinstance(packet, Publish):
            number = int(packet.payload.split(b" ", 1)[0])
            least = self.least.get(packet.topic, 0)
            if number < least and packet.topic not in self.values and not self._may_be_behind:
                self.ledger.wrong(f"retained {packet.topic}: {number}, though {least} was acknowledged")
            self.values[packet.topic] = max(number, self.values.get(packet.topic, 0))
            if packet.qos:
                self.send(Ack(PUBACK, packet.packet_id))
        if self._subscribed and self._has_all():
            self.done.set()

    def _has_all(self) -> bool:
        if self._may_be_behind:
            return all(self.values.get(topic, 0) >= number for topic, number in self.least.items())
        return self.least.keys() <= self.values.keys()


class Run:
    """One broker, its clients, and its deaths."""

    def __init__(self, folder: Path, seed: int, data: Path | None = None, assignments: tuple[str, ...] = ()) -> None:
        self.dice = random.Random(seed)
        self.ledger = Ledger()
        self.broker = BrokerProcess(data or folder / "data", folder / "broker.log", assignments)
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.kills = 0
        #: How likely it is that a start is killed as well.
        self.start_kills = 0.0
        #: What holds client queues, and how likely it is that it is killed as well.
        self.server: QueueServer | None = None
        self.server_kills = 0.0
        self.servers_killed = 0
        self.retained_may_be_behind = False
        #: Whether what reaches no member of a group counts as missing.
        self.whole_groups = True
        self.late = 0
        self._probes = 0
        self._tasks: list[asyncio.Task[None]] = []

    # ---- clients

    def publisher(
        self,
        name: str,
        version: int,
        topics: dict[str, int],
        *,
        retain: bool = False,
        restless: float = 0.0,
        pace_s: float = 0.01,
    ) -> None:
        publisher = Publisher(
            name,
            self.broker.port,
            self.ledger,
            self._new_dice(),
            version,
            topics,
            retain=retain,
            restless=restless,
            pace_s=pace_s,
        )
        self.publishers.append(publisher)
        self._tasks += [asyncio.create_task(publisher.run()), asyncio.create_task(publisher.publish())]

    async def subscriber(
        self,
        name: str,
        version: int,
        topic_filter: str,
        qos: int,
        *,
        receive_maximum: int = 0,
        slow: bool = False,
        restless: float = 0.0,
        subscribe_always: bool = False,
        wait: bool = True,
    ) -> None:
        subscriber = Subscriber(
            name,
            self.broker.port,
            self.ledger,
            self._new_dice(),
            version,
            topic_filter,
            qos,
            receive_maximum=receive_maximum,
            slow=slow,
            restless=restless,
            subscribe_always=subscribe_always,
        )
        self.subscribers.append(subscriber)
        self._tasks.append(asyncio.create_task(subscriber.run()))
        if wait:
            async with asyncio.timeout(_PATIENCE_S * 2):
                await subscriber.subscribed.wait()

    def _new_dice(self) -> random.Random:
        return random.Random(self.dice.random())

    # ---- deaths

    async def live(self, events: int) -> None:
        """Until so much more has happened."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.ledger.reaches(self.ledger.at + events)
        except TimeoutError:
            self.check_tasks()
            assert self.broker.alive(), self.broker.log_text()[-3000:]
            self.ledger.wrong(f"after start {self.broker.starts}, {_PATIENCE_S:g} s without {events} events")

    async def die(self, end: End = BrokerProcess.kill) -> None:
        """Live for a while, end at any instant, start again; now and then end while it starts."""
        await self.live(self.dice.randrange(_MOST_EVENTS * max(10, len(self.subscribers)) // 10))
        await asyncio.sleep(self.dice.random() * 0.03)
        if self.server is not None and self.dice.random() < self.server_kills:
            self.server.kill()
            self.servers_killed += 1
        if end is BrokerProcess.kill:
            self._look_into_sockets()
        self._dies()
        await end(self.broker)
        if self.server is not None and self.server.process is None:
            await asyncio.to_thread(self.server.start)
        await self.broker.start()
        if self.dice.random() < self.start_kills:
            await asyncio.sleep(self.dice.random() * 2.5)
            self._dies()
            await self.broker.kill()
            await self.broker.start()

    def _look_into_sockets(self) -> None:
        """What the broker has read and what not, in the instant at which it is killed."""
        assert self.broker.alive(), self.broker.log_text()[-3000:]
        freeze(self.broker.pid())
        unread = unread_bytes(self.broker.port)
        for subscriber in self.subscribers:
            subscriber.broker_stopped(unread)

    def _dies(self) -> None:
        """What is acknowledged from now on reaches no broker."""
        self.kills += 1
        self.ledger.deaths += 1

    async def probe_retained(self) -> None:
        """Whether what is retained is the last value that was acknowledged, or a later one."""
        self._probes += 1
        if not any(topic.startswith("state/") for topic in self.ledger.sent):
            return
        name = f"probe-{self._probes}"
        behind = self.retained_may_be_behind
        probe = RetainedProbe(name, self.broker.port, self.ledger, self._new_dice(), may_be_behind=behind)
        task = asyncio.create_task(probe.run())
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await probe.done.wait()
        except TimeoutError:
            self.ledger.wrong(f"retained: {sorted(probe.least.keys() - probe.values.keys())} did not come")
        finally:
            probe.leave()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---- the end

    async def drain(self) -> None:
        """No more deaths: everything that is owed arrives."""
        for publisher in self.publishers:
            publisher.finish()
        for publisher in self.publishers:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    await publisher.idle.wait()
            except TimeoutError:
                self.ledger.wrong(f"{publisher.name}: not everything was acknowledged")
        loop = asyncio.get_running_loop()
        before, since = -1, loop.time()
        while True:
            began = loop.time()
            if not self.missing():
                break
            if self.ledger.delivered != before:
                before, since = self.ledger.delivered, loop.time()
            elif loop.time() - since >= _QUIET_S:
                break
            # After many deaths a look takes long: the clients need the time in between.
            await asyncio.sleep(0.1 + 4 * (loop.time() - began))
        # What comes twice may come late.
        await asyncio.sleep(0.5)
        self.check_tasks()

    def missing(self) -> list[str]:
        return self.ledger.missing() + (self.ledger.missing_in_groups() if self.whole_groups else [])

    def verdict(self) -> list[str]:
        """Everything that is wrong."""
        return self.ledger.verdict() + (self.ledger.missing_in_groups() if self.whole_groups else [])

    def check_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.broker.alive():
            await self.broker.stop()

    def summary(self) -> str:
        return (
            f"{self.kills} deaths, {self.servers_killed} of the server of queues, "
            f"{self.ledger.acknowledged} acknowledged, {self.ledger.delivered} delivered, "
            f"{sum(client.connects for client in [*self.publishers, *self.subscribers])} connects"
        )


async def mixed_clients(run: Run) -> None:
    """Both versions, both QoS, quick and slow and restless subscribers, a group, retained values."""
    both = {"crash/{}/one/a": 1, "crash/{}/one/b": 1, "crash/{}/two/a": 2, "crash/{}/two/b": 2}
    await run.subscriber("all-v5", V5, "crash/#", 2)
    await run.subscriber("all-v3", V311, "crash/#", 2, subscribe_always=True)
    await run.subscriber("one-v5", V5, "crash/#", 1, receive_maximum=7)
    await run.subscriber("slow-v5", V5, "crash/+/two/#", 2, receive_maximum=5, slow=True)
    await run.subscriber("slow-v3", V311, "crash/p5/#", 1, slow=True)
    await run.subscriber("restless-v5", V5, "crash/+/+/a", 2, restless=0.05)
    await run.subscriber("restless-v3", V311, "crash/+/+/b", 2, restless=0.05, slow=True)
    for number in range(3):
        await run.subscriber(f"member-{number}", V5, "$share/team/crash/#", 2, receive_maximum=10)
    for name, version in (("p5", V5), ("p3", V311)):
        run.publisher(name, version, {topic.format(name): qos for topic, qos in both.items()})
    run.publisher("s5", V5, {f"state/s5/{number}": 1 + number % 2 for number in range(4)}, retain=True)


async def restless_clients(run: Run) -> None:
    """Connections that come and go all the time, some of them while the broker still has the one before."""
    versions = ((V5, "v5"), (V311, "v3"))
    for version, name in versions:
        await run.subscriber(f"quick-{name}", version, "crash/#", 2, restless=0.4)
        await run.subscriber(f"slow-{name}", version, "crash/#", 2, restless=0.3, slow=True)
        await run.subscriber(f"small-{name}", version, "crash/+/+/a", 2, restless=0.3, receive_maximum=3)
        await run.subscriber(f"one-{name}", version, "crash/#", 1, restless=0.3, slow=True)
        await run.subscriber(f"member-{name}", version, "$share/team/crash/#", 2, restless=0.3, slow=True)
        await run.subscriber(f"busy-member-{name}", version, "$share/team/crash/#", 2, receive_maximum=4)
    for version, name in versions:
        topics = {f"crash/{name}/one/a": 1, f"crash/{name}/two/a": 2, f"crash/{name}/two/b": 2}
        run.publisher(name, version, topics, restless=0.1)
        run.publisher(f"calm-{name}", version, {f"crash/c{topic[6:]}": qos for topic, qos in topics.items()})


async def crash(
    folder: Path,
    seed: int,
    deaths: int,
    *,
    end: End = BrokerProcess.kill,
    start_kills: float = 0.0,
    server: QueueServer | None = None,
    server_kills: float = 0.0,
    clients: Callable[[Run], Awaitable[None]] = mixed_clients,
    data: Path | None = None,
    assignments: tuple[str, ...] = (),
    say: Callable[[str], None] | None = None,
) -> Run:
    """The whole story; the verdict is the caller's."""
    run = Run(folder, seed, data, assignments)
    run.start_kills = start_kills
    run.server, run.server_kills = server, server_kills
    run.whole_groups = GROUPS_SURVIVE or not deaths
    await run.broker.start()
    try:
        await clients(run)
        if not deaths:
            await run.live(10 * _MOST_EVENTS)
        while run.kills < deaths:
            await run.die(end)
            if run.dice.random() < 0.5:
                await run.live(1)
                await run.probe_retained()
            if run.kills % 5 == 3 and run.late < _MOST_LATE:
                run.late += 1
                await run.subscriber(f"late-{run.kills}", V5, "crash/#", 2, wait=False)
            if say is not None:
                say(f"{run.summary()}; {run.ledger.violations}")
        await run.live(1)
        await run.drain()
        await run.probe_retained()
    finally:
        await run.close()
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--stop", action="store_true", help="SIGTERM in place of SIGKILL")
    parser.add_argument("--start-kills", type=float, default=0.0, help="how likely a start is killed as well")
    parser.add_argument("--server-kills", type=float, default=0.0, help="how likely the server of queues dies as well")
    parser.add_argument("--queue", default="log", help="where messages wait for clients: log, journal, redis, postgres")
    parser.add_argument("--set", action="append", default=[], help="a setting of the broker, as in holdfast serve")
    parser.add_argument("--restless", action="store_true", help="clients that come and go")
    asked = parser.parse_args()
    clients = restless_clients if asked.restless else mixed_clients
    end = BrokerProcess.stop if asked.stop else BrokerProcess.kill
    folder = Path(tempfile.mkdtemp(prefix="holdfast-crash-"))
    print(f"seed {asked.seed}, in {folder}", flush=True)
    with queue_server(asked.queue) as (server, assignments):
        run = asyncio.run(
            crash(
                folder,
                asked.seed,
                asked.kills,
                end=end,
                start_kills=asked.start_kills,
                server=server,
                server_kills=asked.server_kills,
                clients=clients,
                assignments=(*assignments, *asked.set),
                say=print,
            )
        )
    found = run.verdict() + run.broker.complaints()
    print(f"{run.summary()}; lost {run.ledger.lost()}, QoS 2 twice {run.ledger.twice()}")
    print(describe_repetitions(run.ledger))
    print("\n".join(found[:60]) if found else "clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
