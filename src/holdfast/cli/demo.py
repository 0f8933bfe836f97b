"""`holdfast demo --kill-it`: a broker under load is killed every few seconds, and what it acknowledged is counted.

    publisher ──▶ broker ──▶ subscriber
                  ↑ kill -9, start, kill -9, start …

1. A message counts as acknowledged with its PUBACK or PUBCOMP, as delivered when the subscriber takes it.
2. The publisher and the subscriber connect again until they are cancelled.
3. At the end nothing acknowledged may be missing, and nothing of QoS 2 may have come twice. QoS 1 may.
"""

import asyncio
import math
import random
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.box import ROUNDED
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.node.logs import configure_logs

#: Seconds between two checks of what is missing, and between two updates of the table.
_CHECK_S: Final = 0.1
_UPDATE_S: Final = 0.2
#: Characters of the broker's log that are shown if it fails.
LOG_TAIL: Final = 2000
#: Seconds that the rest may take to arrive when publishing is over, and that a start or a stop may take.
REST_S: Final = 30.0
#: Unacknowledged messages of the publisher, at most.
_WINDOW: Final = 100
#: Seconds between two attempts to connect, and between two bursts.
_RETRY_S: Final = 0.1
_BURST_S: Final = 0.02
#: What the command ends with.
PROGRAM: Final = "from holdfast.cli.main import main; main()"


class Deliveries:
    """When messages came."""

    def __init__(self) -> None:
        self._last_s = 0.0
        #: The longest time without a message, while messages were published.
        self.longest_pause_s = 0.0

    def comes(self) -> None:
        now_s = time.monotonic()
        if self._last_s:
            self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_s)
        self._last_s = now_s


class Flow:
    """The messages of one QoS, numbered from 1."""

    def __init__(self, qos: int) -> None:
        self.qos: Final = qos
        self.topic: Final = f"demo/qos{qos}"
        self.sent = 0
        self.acknowledged: Final[set[int]] = set()
        self.delivered: Final[set[int]] = set()
        self.duplicates = 0

    def missing(self) -> int:
        """Acknowledged and not delivered yet; at the end, lost."""
        return len(self.acknowledged - self.delivered)

    def arrives(self, number: int) -> None:
        self.duplicates += number in self.delivered
        self.delivered.add(number)


class Publisher:
    """Publishes about `rate` messages a second, half of them with each QoS, as far as the window allows."""

    def __init__(self, port: int, flows: list[Flow]) -> None:
        self._options: Final = _options("demo-publisher", port)
        self._flows: Final = flows
        self._settled = 0
        #: Published and not acknowledged, in their order.
        self.in_flight: Final[deque[tuple[Flow, int]]] = deque()
        #: 0 publishes nothing.
        self.rate = 0.0

    async def run(self) -> None:
        due = 0.0
        async with Client(self._options) as client:
            while True:
                await asyncio.sleep(_BURST_S)
                due = min(due + self.rate * _BURST_S, _WINDOW) if self.rate else 0.0
                while due >= 1 and client.connected and client.unacknowledged < _WINDOW:
                    due -= 1
                    flow = min(self._flows, key=lambda flow: flow.sent)
                    flow.sent += 1
                    self.in_flight.append((flow, flow.sent))
                    await client.publish(flow.topic, b"%d" % flow.sent, flow.qos)
                while self._settled < client.settled:
                    flow, number = self.in_flight.popleft()
                    flow.acknowledged.add(number)
                    self._settled += 1


class Subscriber:
    """Receives every message, those of QoS 2 once."""

    def __init__(self, port: int, flows: list[Flow], deliveries: Deliveries) -> None:
        self._options: Final = _options("demo-subscriber", port)
        self._deliveries: Final = deliveries
        self._flows: Final = {flow.topic: flow for flow in flows}
        self.subscribed: Final = asyncio.Event()

    async def run(self) -> None:
        async with Client(self._options) as client:
            await client.subscribe("demo/#", 2)
            self.subscribed.set()
            while True:
                message = await client.receive()
                self._flows[message.topic].arrives(int(message.payload))
                self._deliveries.comes()
                client.acknowledge(message)


def _options(client_id: str, port: int) -> ConnectionOptions:
    return ConnectionOptions(
        port=port,
        client_id=client_id,
        clean_start=False,
        session_expiry_s=3600,
        keep_alive_s=0,
        max_inflight=_WINDOW,
        retry_for_s=math.inf,
        longest_pause_s=_RETRY_S,
    )


class Demo:
    """One run: a broker, two clients, and what they saw."""

    def __init__(self, folder: Path) -> None:
        self.flows: Final = [Flow(1), Flow(2)]
        self.deliveries: Final = Deliveries()
        self.kills = 0
        self.state = "the broker starts"
        self.stop: Final = asyncio.Event()
        self._folder: Final = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._broker: asyncio.subprocess.Process | None = None

    def describe(self) -> str:
        return f"A broker on 127.0.0.1:{self.port}"

    def faults(self) -> list[str]:
        """The promises that the broker broke."""
        found = [f"{flow.missing():,} of QoS {flow.qos} are lost" for flow in self.flows if flow.missing()]
        return found + [f"{flow.duplicates:,} of QoS 2 came twice" for flow in self.flows[1:] if flow.duplicates]

    def verdict(self) -> str:
        """The outcome, in a sentence."""
        acknowledged = sum(len(flow.acknowledged) for flow in self.flows)
        kills = f"{self.kills} kill{'' if self.kills == 1 else 's'}"
        found = "; ".join(self.faults()) or "none lost, none of QoS 2 delivered twice"
        pause = f"longest pause {self.deliveries.longest_pause_s:.1f} s"
        return f"{kills}, {acknowledged:,} messages acknowledged: {found}; {pause}"

    async def run(self, seconds: float, every_s: float, rate: float) -> None:
        """`every_s`: how long a broker lives on average; 0 without kills. LostError if the broker does not run."""
        publisher, subscriber = Publisher(self.port, self.flows), Subscriber(self.port, self.flows, self.deliveries)
        await self._start()
        try:
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(peer.run()) for peer in (publisher, subscriber)]
                await self._wait(subscriber.subscribed, REST_S)
                publisher.rate = rate
                await self._live(seconds, every_s)
                publisher.rate = 0.0
                self.state = "published; the rest arrives"
                for _ in range(int(REST_S / _CHECK_S)):
                    await asyncio.sleep(_CHECK_S)
                    if not publisher.in_flight and not any(flow.missing() for flow in self.flows):
                        break
                await asyncio.sleep(_CHECK_S)  # what comes twice may come late
                for task in running:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await self._end(signal.SIGTERM)
        self.state = "done"

    async def _live(self, seconds: float, every_s: float) -> None:
        ends = time.monotonic() + seconds
        while (left_s := ends - time.monotonic()) > 0 and not self.stop.is_set():
            life_s = every_s * random.uniform(0.5, 1.5) if every_s else left_s
            await self._wait(self.stop, min(left_s, life_s))
            if every_s and life_s <= left_s and not self.stop.is_set():
                await self._end(signal.SIGKILL)
                self.kills += 1
                await self._start()

    async def _wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Wait for an event, at most so long; LostError if the broker ends by itself meanwhile."""
        broker = self._broker
        assert broker is not None
        waits = [asyncio.create_task(event.wait()), asyncio.create_task(broker.wait())]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if broker.returncode is not None:
            log = (self._folder / "broker.log").read_text(encoding="utf-8", errors="replace")
            raise LostError(f"the broker ended by itself, with status {broker.returncode}:\n{log[-LOG_TAIL:]}")

    async def _start(self) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            # In a new session, so that Ctrl-C ends the demo only, and the demo ends the broker.
            self._broker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", PROGRAM, "serve"),
                *("--port", str(self.port), "--data", str(self._folder / "data"), "--set", "console.enabled=false"),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.state = f"the broker runs, process {self._broker.pid}"

    async def _end(self, number: int) -> None:
        broker, self._broker = self._broker, None
        if broker is None:
            return
        if broker.returncode is None:
            broker.send_signal(number)
        self.state = f"the broker got {signal.Signals(number).name}"
        async with asyncio.timeout(REST_S):
            await broker.wait()


def render(demo: Demo) -> Group:
    """The counts so far, as a table."""
    over = demo.state == "done"
    table = Table(box=ROUNDED)
    table.add_column()
    rows: dict[str, Callable[[Flow], int]] = {
        "sent": lambda flow: flow.sent,
        "acknowledged": lambda flow: len(flow.acknowledged),
        "delivered": lambda flow: len(flow.delivered),
        "lost" if over else "on the way": Flow.missing,
        "delivered twice": lambda flow: flow.duplicates,
    }
    for flow in demo.flows:
        table.add_column(f"QoS {flow.qos}", justify="right", min_width=9)
    for label, value in rows.items():
        table.add_row(label, *(f"{value(flow):,}" for flow in demo.flows))
    if not over:
        return Group(Text(f"killed {demo.kills} times · {demo.state}", "bold"), table)
    allowed = "QoS 1 allows repeats: after a kill, the broker sends the last ones again."
    lines = [Text(demo.verdict(), "bold red" if demo.faults() else "bold green")]
    return Group(table, *lines, *([Text(allowed, "dim")] if demo.flows[0].duplicates else []))


async def _show(demo: Demo, seconds: float, every_s: float, rate: float) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, demo.stop.set)
    console = Console(highlight=False)
    killing = f", killed with -9 about every {every_s:g} s" if every_s else ""
    console.print(f"{demo.describe()}{killing}, for {seconds:g} s.")
    work = asyncio.create_task(demo.run(seconds, every_s, rate))
    if console.is_terminal:
        with Live(render(demo), console=console, auto_refresh=False) as live:
            while not work.done():
                await asyncio.wait([work], timeout=_UPDATE_S)
                live.update(render(demo), refresh=True)
    else:
        await _print_kills(demo, work, console)
    await work


async def _print_kills(demo: Demo, work: asyncio.Task[None], console: Console) -> None:
    """Without a terminal: a line for each kill, and the last table."""
    printed = 0
    while not work.done():
        await asyncio.wait([work], timeout=_UPDATE_S)
        if demo.kills > printed:
            printed = demo.kills
            delivered = sum(len(flow.delivered) for flow in demo.flows)
            console.print(f"kill {printed}: {delivered:,} messages delivered so far")
    if demo.state == "done":
        console.print(render(demo))


def _cluster_demo(folder: Path) -> Demo:
    try:
        # Imported here: a broker that is alone does not need the cluster's libraries.
        from holdfast.cli.demo_cluster import ClusterDemo
    except ImportError as missing:
        fail(f"{missing.name} is not installed, which a cluster needs; run: pip install 'holdfast[cluster]'", FAILED)
    configure_logs("error", "auto")
    return ClusterDemo(folder)


def demo(
    kill_it: Annotated[bool, typer.Option("--kill-it", help="Kill the broker with -9, again and again.")] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="Three nodes; a kill takes one of them.")] = False,
    seconds: Annotated[float, typer.Option(help="How long.", min=1)] = 30.0,
    every: Annotated[
        float | None, typer.Option(help="Seconds between two kills, on average: 4, or 10 in a cluster.", min=0.5)
    ] = None,
    rate: Annotated[float, typer.Option(help="Messages a second.", min=1)] = 1000.0,
) -> None:
    """Run a broker with a publisher and a subscriber, and count what is acknowledged, delivered, missing and doubled.

    The broker is a separate process, on a folder that is removed at the end. Ctrl-C ends it early.
    """
    every_s = every or (10.0 if cluster else 4.0)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True) as folder:
        made = _cluster_demo(Path(folder)) if cluster else Demo(Path(folder))
        with exit_on(LostError, code=FAILED):
            asyncio.run(_show(made, seconds, every_s if kill_it else 0.0, rate))
    if made.faults():
        fail(f"the broker did not keep its promise: {'; '.join(made.faults())}", FAILED)
