"""Starts brokers on one day of messages, and measures every budget, alternating between them.

off       no console
idle      a console that nobody looks at
watched   a console that is looked at, asked and searched
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress, TaskID

from bench.console import answers, browser, footprint, nodes, rows
from bench.console.exports import exports
from bench.console.held_loop import holds, own_memory_mb, read_snapshot
from bench.console.isolation import measure
from bench.console.many_clients import many_clients
from bench.console.nodes import CONSOLE, Node
from bench.console.past_data import PastDay, write_day
from bench.console.present_clients import present
from bench.console.time_machine import time_machine
from holdfast.model.time import DAY_S

#: Values by key (see `rows.keys`).
Results = dict[str, float]


@dataclass(frozen=True)
class Amounts:
    """How much is stored and asked."""

    messages: int = 1_000_000
    devices: int = 10_000
    #: Topics that speak once a minute.
    talkers: int = 10_000
    #: Connected to each broker, and pretended to a console.
    clients: int = 1_000
    many: int = 100_000
    #: How often the broker is measured in a round, and for how long.
    slices: int = 2
    load_s: float = 4.0
    watch_s: float = 4.0
    #: How often each call and each question is asked.
    calls: int = 200
    questions: int = 20
    snapshots: int = 20
    #: Messages that are exported.
    exported: int = 200_000
    #: How often a page is started, and positions that a table is scrolled to, from the first row to the last.
    starts: int = 5
    scrolls: int = 60
    #: Frames that an open overview takes: those of eight hours.
    frames: int = 8 * 3600


QUICK = Amounts(
    messages=3_000,
    devices=50,
    talkers=60,
    clients=20,
    many=600,
    slices=1,
    load_s=0.1,
    watch_s=0.3,
    calls=3,
    questions=1,
    snapshots=1,
    exported=2_000,
    starts=1,
    scrolls=6,
    frames=70,
)
#: The sizes of the budgets, as far as connections can be opened on one machine.
FULL = Amounts(messages=10_000_000, devices=100_000, clients=10_000)

_STEPS = 9
#: Which broker is measured at each moment.
_NODES = {
    rows.OFF: rows.OFF,
    rows.AGAIN: rows.OFF,
    rows.IDLE: rows.IDLE,
    rows.WATCHED: rows.WATCHED,
    rows.COUNTED: rows.WATCHED,
}


class Stage:
    """Everything that runs, between `open` and `close`."""

    def __init__(self, amounts: Amounts) -> None:
        self._amounts = amounts
        self._held = ExitStack()
        self._nodes: dict[str, Node] = {}
        self._day: PastDay | None = None
        self._rounds = 0
        #: Measured once, before anything else happened.
        self._first: Results = {}

    @property
    def stored(self) -> int:
        return self._day.messages if self._day is not None else 0

    def close(self) -> None:
        self._held.close()

    def open(self, progress: Progress) -> None:
        """Store the messages, and start all brokers and clients. `close` also if it fails."""
        amounts = self._amounts
        task = progress.add_task("storing a day of messages", total=DAY_S)
        folder = Path(tempfile.mkdtemp(prefix="bench-console-day-"))
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._day = write_day(
            folder / "data",
            amounts.messages,
            amounts.devices,
            amounts.talkers,
            lambda done: progress.update(task, completed=done),
        )
        progress.update(task, description="starting brokers", completed=DAY_S)
        for name in (rows.OFF, rows.IDLE, rows.WATCHED):
            node = nodes.start(name, folder / "data", console=name != rows.OFF)
            self._held.callback(node.running.stop)
            self._nodes[name] = node
            self._held.enter_context(present(amounts.clients, node.port))
        progress.remove_task(task)
        watched = self._nodes[rows.WATCHED]
        read_snapshot(watched)
        self._first["memory/broker_mb"] = own_memory_mb(watched) - own_memory_mb(self._nodes[rows.OFF])
        idle = self._nodes[rows.IDLE].child(CONSOLE)
        self._first["memory/console_idle_mb"] = idle.memory_info().rss / 1e6

    def one_round(self, progress: Progress) -> Iterator[tuple[str, float]]:
        """Every key with its value; what does not change from round to round in the first one only."""
        amounts, watched, idle = self._amounts, self._nodes[rows.WATCHED], self._nodes[rows.IDLE]
        assert self._day is not None
        task = progress.add_task("", total=_STEPS + amounts.slices * len(rows.MOMENTS))
        self._rounds += 1
        if self._rounds == 1:
            yield from self._first.items()
            yield from footprint.packages()
            yield from footprint.page(idle.url)
        steps = {
            "console with many clients": many_clients(amounts.many, watched.stats(), amounts.calls),
            "API, idle": answers.idle_calls(watched, amounts.clients, amounts.calls),
            "/metrics": answers.metrics(watched, amounts.questions),
            "kicks": answers.kicks(watched, amounts.questions),
            "time machine": time_machine(watched, self._day, amounts.questions),
            "export": exports(watched, self._day, amounts.exported),
            "browser": browser.budgets(
                watched,
                browser.Amounts(amounts.many, amounts.frames, amounts.questions, amounts.starts, amounts.scrolls),
            ),
        }
        for words, values in steps.items():
            progress.update(task, description=words)
            yield from values
            self._check_clients(words)
            progress.advance(task)
        yield from self._loads(progress, task)
        progress.update(task, description="API, under full load")
        yield from answers.busy_calls(watched, amounts.clients, amounts.load_s)
        self._check_clients("API, under full load")
        progress.advance(task)
        progress.update(task, description="snapshots of clients")
        yield from holds(watched, amounts.clients, amounts.snapshots)
        progress.remove_task(task)

    def _check_clients(self, step: str) -> None:
        """SystemExit if clients are gone: figures of a broker with fewer of them would be too good."""
        for name, node in self._nodes.items():
            connected = sum(node.stats().labelled["connections"].values())
            if connected < self._amounts.clients:
                raise SystemExit(
                    f"after {step}, broker {name} has {connected:,.0f} of {self._amounts.clients:,} clients"
                )

    def _loads(self, progress: Progress, task: TaskID) -> Iterator[tuple[str, float]]:
        amounts = self._amounts
        moments = list(rows.MOMENTS)
        for turn in range(amounts.slices):
            # Each slice begins with another one.
            shift = (self._rounds * amounts.slices + turn) % len(moments)
            values: Results = {}
            for moment in moments[shift:] + moments[:shift]:
                progress.update(task, description=rows.MOMENTS[moment])
                node = self._nodes[_NODES[moment]]
                values |= measure(node, moment, amounts.load_s, amounts.watch_s)
                self._check_clients(rows.MOMENTS[moment])
                progress.advance(task)
            yield from values.items()
            yield from rows.ratios(values, rows.LOADS).items()
