"""The broker's numbers, gathered from counters that exist. Nothing is counted for them per message.

A number that cannot be had is left out of the frame: `holdfast.control.metrics` says what each one means.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.broker.broker import Broker
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.control.words import Histogram, Stats
from holdfast.model.histogram import HistogramCounts
from holdfast.model.reasons import SUCCESS, reason_name
from holdfast.model.time import SECOND_US
from holdfast.node.client_feed import ClientScan, ClientTotals
from holdfast.node.node_state import NodeState
from holdfast.node.slice_times import SliceTimes

if TYPE_CHECKING:
    from holdfast.node.storage_numbers import StorageNumbers

_LAG_S: Final = 0.5
#: Characters of a text in a frame: frames are small.
_MAX_PROBLEM: Final = 500
_PROCESS: Final = Path("/proc/self")


class LoopLag:
    """How much later than planned the event loop runs a timer, twice a second while it is started."""

    def __init__(self) -> None:
        self.histogram: Final = HistogramCounts(DURATION_BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._timer is None:
            self._plan()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _LAG_S
        self._timer = loop.call_at(due_s, self._measure, due_s)

    def _measure(self, due_s: float) -> None:
        self.histogram.add(max(0.0, asyncio.get_running_loop().time() - due_s))
        self._plan()


class BrokerStats:
    """Gathers the numbers of one broker. Requires: its event loop."""

    def __init__(
        self,
        broker: Broker,
        state: NodeState,
        scan: ClientScan,
        slices: SliceTimes,
        lag: LoopLag,
        storage: "StorageNumbers | None",
    ) -> None:
        self._broker: Final = broker
        self._state: Final = state
        self._scan: Final = scan
        self._slices: Final = slices
        self._lag: Final = lag
        self._storage: Final = storage

    def gather(self) -> Stats:
        """The numbers as they are now; those of the disk as of a few seconds ago, those of a scan as of the last."""
        state, detail = self._state.state()
        totals = self._scan.latest()
        numbers: dict[str, float] = {
            **self._of_node(),
            **self._of_clients(totals),
            **self._of_messages(),
            **_of_process(),
        }
        labelled = self._labelled(totals)
        storage = self._storage
        if storage is not None:
            storage.refresh()
            numbers |= storage.numbers | storage.disk() | {"clock_leap_seconds": storage.clock_leap_s()}
            labelled |= storage.labelled
        filled = {name: values for name, values in labelled.items() if values}
        return Stats(
            self._broker.clock.wall_us(),
            numbers,
            filled,
            self._histograms(),
            state,
            detail,
            self._broker.blocks.problem,
            self._state.reloads.describe_errors()[:_MAX_PROBLEM],
        )

    def _of_node(self) -> dict[str, float]:
        reloads = self._state.reloads
        return {
            "start_time_seconds": self._state.started_us / SECOND_US,
            "reload_last_success_timestamp_seconds": reloads.last_success_us / SECOND_US,
            "reload_failures_total": reloads.failures,
        }

    def _of_clients(self, totals: ClientTotals | None) -> dict[str, float]:
        broker = self._broker
        numbers: dict[str, float] = {
            "connections_opened_total": broker.exchange.counters.sockets,
            "connects_total": broker.exchange.counters.connects,
            "sessions_expired_total": broker.sessions.expired,
        }
        if totals is not None:
            numbers["clients_behind"] = totals.behind
            numbers["inflight_messages"] = totals.inflight
        return numbers

    def _of_messages(self) -> dict[str, float]:
        exchange = self._broker.exchange
        counters = exchange.counters
        numbers: dict[str, float] = {
            "packets_received_total": counters.packets_in,
            "messages_received_total": counters.messages_in,
            "messages_sent_total": counters.messages_out,
            "messages_repeated_total": counters.repeated,
            "messages_not_stored_total": counters.not_stored,
            "bytes_received_total": counters.bytes_in,
            "bytes_sent_total": counters.bytes_out,
            "retained_messages": self._broker.retained.count(),
            "commits_total": counters.batches,
            "disk_refusing": float(exchange.intake.refusing != SUCCESS),
        }
        if exchange.external.backends:
            numbers["outbox_messages"] = exchange.external.waiting
        segments = self._broker.segment_counts
        if segments is not None:
            numbers["segment_backlog_messages"] = segments.waiting
        return numbers

    def _labelled(self, totals: ClientTotals | None) -> dict[str, dict[str, float]]:
        broker = self._broker
        counters = broker.exchange.counters
        connected = broker.connections.clients
        labelled: dict[str, dict[str, float]] = {
            "connections": {listener.name: listener.connections for listener in self._state.listeners()},
            "certificate_expiry_timestamp_seconds": self._state.certificate_expiries(),
            "refusals_total": {_label(reason_name(code)): count for code, count in counters.refusals.items()},
            "handshakes_failed_total": {_label(event): count for event, count in counters.handshakes_failed.items()},
            "drops_total": dict(counters.drops),
            "sessions": {
                "connected": connected,
                "offline": max(0, broker.session_count() - connected),
            },
            "queue_backend_away": {
                backend.name: float(backend.away) for backend in broker.exchange.external.backends.values()
            },
        }
        if totals is not None:
            ordinary = max(0, len(broker.exchange.routes) - totals.shared)
            labelled["subscriptions"] = {"ordinary": ordinary, "shared": totals.shared}
        syncs = broker.sync_counts
        if syncs is not None:
            labelled["syncs_total"] = {"loop": syncs.on_loop, "thread": syncs.on_thread}
        return labelled

    def _histograms(self) -> dict[str, Histogram]:
        found = {
            "loop_lag_seconds": self._lag.histogram,
            "control_slice_seconds": self._slices.histogram,
        }
        syncs = self._broker.sync_counts
        if syncs is not None:
            found["sync_seconds"] = syncs.seconds
        commits = self._state.commit_counts
        if commits is not None:
            found["commit_seconds"] = commits.seconds
            found["commit_messages"] = commits.messages
        return {name: Histogram(tuple(counted.counts), counted.sum) for name, counted in found.items()}


def _label(text: str) -> str:
    """As the values of labels are written."""
    return text.lower().replace(" ", "_")


def _of_process() -> dict[str, float]:
    """Processor time, memory and files of this process; what the system does not tell is left out."""
    numbers: dict[str, float] = {"process_cpu_seconds_total": time.process_time()}
    try:
        pages = int((_PROCESS / "statm").read_text().split()[1])
        numbers["process_resident_memory_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
        # Counting names would take long with many connections; since Linux 6.2 the size of the folder is the number.
        files = (_PROCESS / "fd").stat().st_size
        if files:
            numbers["process_open_fds"] = files
    except (OSError, ValueError, IndexError):
        pass
    return numbers
