"""The console: what it knows of its broker, and the tasks that keep that up to date.

    broker ── stats ──▶ LiveStats ──▶ charts, alarms, event streams, /metrics
           ── clients ▶ ClientWatch
           ◀─ requests ── API

Everything here runs on one event loop. HTTP is in `app`, what calls do in `api`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from holdfast.console.access.audit import Audit
from holdfast.console.access.login import Login
from holdfast.console.jobs.jobs import Jobs, RunJob
from holdfast.console.live.alarms import Alarms, Situation
from holdfast.console.live.block_watch import BlockWatch
from holdfast.console.live.broker_link import BrokerLink
from holdfast.console.live.charts import Charts
from holdfast.console.live.client_watch import ClientWatch
from holdfast.console.live.live_stats import LiveStats
from holdfast.console.live.own_numbers import OwnNumbers, Seen
from holdfast.console.options import ConsoleOptions
from holdfast.console.past.history_link import HistoryLink, HistoryNumbers
from holdfast.console.problems import ProblemError
from holdfast.console.web.event_stream import StreamEvents
from holdfast.console.web.ticker import Ticker
from holdfast.control.words import ClientChanges, ClientRows, NodeInfo, Nothing, Stats
from holdfast.files.private import make_private_folder
from holdfast.files.socket_path import find_socket
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

_log = structlog.get_logger()

_TICK_S: Final = 1.0
#: What the broker is changes seldom; its numbers say when it does.
_NODE_EVERY: Final = 10
_CLEAN_EVERY: Final = 3600


class Console:
    """Requires: `run` runs while it is used."""

    def __init__(
        self,
        options: ConsoleOptions,
        clock: Clock,
        find_history: Callable[[], Awaitable[Path]] | None = None,
        run_job: RunJob | None = None,
    ) -> None:
        """`find_history` is what `HistoryLink` takes, `run_job` what `Jobs` takes.

        SettingsError if a file of users or tokens is wrong. OSError if the folder of the console cannot be used.
        """
        make_private_folder(options.state_folder)
        folder = options.state_folder
        self.options: Final = options
        self.clock: Final = clock
        self.started_us: Final = clock.wall_us()
        self.login: Final = Login(folder, options.user_file, options.token_file, clock)
        self.audit: Final = Audit(folder / "audit", clock)
        self.alarms: Final = Alarms(folder / "alarms.json", clock)
        self.charts: Final = Charts(folder)
        self.jobs: Final = Jobs(folder / "jobs.json", clock, run_job)
        self.live: Final = LiveStats()
        self.numbers: Final = OwnNumbers()
        self.ticker: Final = Ticker()
        self.events: Final = StreamEvents(self)
        self.link: Final = BrokerLink(self._find_socket, self, f"holdfast console {options.version}")
        self.history: Final = HistoryLink(find_history)
        self.clients: Final = ClientWatch(lambda wanted: self.link.watch_clients(wanted=wanted), self.history, clock)
        self.blocks: Final = BlockWatch(self.link, clock)
        #: Set when a task has failed, by a bug: the console cannot go on.
        self.failed: Final = asyncio.Event()
        #: What the broker said of itself last.
        self.node: NodeInfo | None = None
        #: Of the history process, as of the last look; None while it does not run.
        self.history_numbers: HistoryNumbers | None = None
        self._charts_fail = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep everything up to date for the length of the block, or until `failed` is set."""
        tasks = [asyncio.create_task(work) for work in (self.link.run(), self._tick())]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        try:
            yield
        finally:
            await self.jobs.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.clients.close()
            self.charts.close()

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task of the console failed", exc_info=error)
            self.failed.set()

    # ---- the state of the broker

    @property
    def now_s(self) -> float:
        return self.clock.monotonic_us() / SECOND_US

    @property
    def is_up(self) -> bool:
        """Whether the broker has shown a sign of life lately."""
        return self.live.is_fresh(self.now_s)

    @property
    def state(self) -> str:
        """`taking`, `starting`, `refusing`, `stopping` or `away`."""
        if not self.is_up or self.live.last is None:
            return "away"
        return self.live.last.state or "taking"

    @property
    def node_number(self) -> int | None:
        """The broker's number in its cluster; None without a cluster, or if that is not known yet."""
        cluster = _parsed(self.node.cluster) if self.node is not None and self.node.cluster else None
        number = cluster.get("cluster/node", "") if isinstance(cluster, dict) else ""
        return int(number) if str(number).isdigit() else None

    async def ask_node(self, timeout_s: float = 1.0) -> None:
        """Ask the broker what it is; what it said last stays if it does not answer. ProblemError then."""
        node = await self.link.request("node", Nothing(), timeout_s)
        assert isinstance(node, NodeInfo)
        self.node = node

    def shown_node(self) -> dict[str, Any]:
        """What `GET node` answers."""
        node = self.node
        last = self.live.last
        shown: dict[str, Any] = {} if node is None else msgspec.structs.asdict(node)
        shown |= {
            "state": self.state,
            "detail": last.detail if last is not None else "",
            "now_us": self.clock.wall_us(),
            "frame_age_s": self.live.age_s(self.now_s),
            "has_past": self.history.has_past,
            "read_only": self.options.read_only,
            "cluster": _parsed(node.cluster) if node is not None and node.cluster else None,
            "console": {"version": self.options.version, "started_us": self.started_us},
            "time_zone_note": "times are microseconds since 1970-01-01 UTC",
        }
        if self.options.data_folder is not None:
            shown.setdefault("data_folder", str(self.options.data_folder))
        return shown

    def own_frame(self) -> Stats:
        """The console's own numbers."""
        age_s = self.live.age_s(self.now_s)
        alarms = self.alarms
        seen = Seen(self.is_up, age_s, alarms.active_names, alarms.last_raised_s(), self.node, self.history_numbers)
        return self.numbers.frame(seen)

    # ---- news of the broker (`BrokerListener`)

    def broker_connected(self, node: NodeInfo) -> None:
        self.node = node
        _log.info("broker answers the console", version=node.version, pid=node.pid)

    def broker_lost(self) -> None:
        _log.info("broker was lost by the console")

    def stats_came(self, stats: Stats) -> None:
        self.live.take(stats, self.now_s)
        try:
            self.charts.take(stats, self.live.previous)
            self._charts_fail = False
        except OSError as error:
            if not self._charts_fail:
                _log.warning("charts cannot be kept", why=error.strerror)
            self._charts_fail = True
        # Not with the next tick alone: a broker that cannot go on says so in its last frame.
        self._judge()
        self.ticker.tick()

    def clients_begin(self) -> None:
        self.clients.begin()

    def client_rows_came(self, rows: ClientRows) -> None:
        self.clients.take_rows(rows)

    def client_changes_came(self, changes: ClientChanges) -> None:
        self.clients.take_changes(changes)

    # ---- once a second

    async def _tick(self) -> None:
        count = 0
        while True:
            self._judge()
            self.clients.tick(is_fresh=self.is_up)
            if count % _NODE_EVERY == 0:
                if self.link.is_connected:
                    # What it said last stays, and its age says how old that is.
                    with suppress(ProblemError):
                        await self.ask_node()
                self.history_numbers = await self.history.numbers()
            if count % _CLEAN_EVERY == 0:
                try:
                    await asyncio.to_thread(self.audit.remove_old)
                except OSError as error:
                    _log.warning("old audit files cannot be removed", why=error.strerror)
            count += 1
            await asyncio.sleep(_TICK_S)

    def _judge(self) -> None:
        if self.options.read_only:
            return
        age_s = self.live.age_s(self.now_s)
        if age_s is None:
            # No frame ever came: counted from the start of the console, so that a broker that never answers is noticed.
            age_s = (self.clock.wall_us() - self.started_us) / SECOND_US
        wall_s = self.clock.wall_us() / SECOND_US
        history = self.history
        situation = Situation(self.live, age_s, wall_s, tuple(self.login.problems()), history.failures, history.failure)
        if self.alarms.judge(situation) or not self.is_up:
            self.ticker.tick()

    def _find_socket(self) -> Path | None:
        if self.options.control_socket is not None or self.options.data_folder is None:
            return self.options.control_socket
        return find_socket(self.options.data_folder)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
