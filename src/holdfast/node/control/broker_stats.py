"""The broker's numbers, gathered from counters that exist. Nothing is counted for them per message.

A number that cannot be had is left out of the frame; one with a label that nothing has is told as empty, `{}`.
`holdfast.control.metrics` says what each one means.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from holdfast.broker.broker import Broker
from holdfast.control.metrics import DURATION_BOUNDS
from holdfast.control.words import Histogram, Stats
from holdfast.files.process_numbers import process_numbers
from holdfast.model.histogram import HistogramCounts
from holdfast.model.reasons import SUCCESS, reason_name
from holdfast.model.time import SECOND_US
from holdfast.node.control.client_feed import ClientScan, ClientTotals
from holdfast.node.control.slice_times import SliceTimes
from holdfast.node.node_state import NodeState

if TYPE_CHECKING:
    from holdfast.node.control.storage_numbers import StorageNumbers

_LAG_S: Final = 0.5
#: Characters of a text in a frame: frames are small.
_MAX_PROBLEM: Final = 500


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
        }
        labelled = self._labelled(totals)
        storage = self._storage
        if storage is not None:
            storage.refresh()
            numbers |= storage.numbers | storage.disk()
            is_poisoned = storage.is_poisoned() or self._state.is_poisoned
            numbers |= {"clock_leap_seconds": storage.clock_leap_s(), "poisoned": float(is_poisoned)}
            labelled |= storage.labelled | {"disk_state": storage.disk_state()}
        return Stats(
            self._broker.clock.wall_us(),
            numbers,
            labelled,
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
            "connects_total": broker.exchange.counters.connects,
            "sessions_expired_total": broker.sessions.expired,
        }
        if totals is not None:
            numbers["clients_behind"] = totals.behind
            numbers["inflight_messages"] = totals.inflight
            numbers["replays"] = totals.replays
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
            "commit_waiting": float(not exchange.is_settled()),
            "disk_refusing": float(exchange.intake.refusing != SUCCESS),
        }
        lake = None if self._broker.lake is None else self._broker.lake.counts
        if lake is not None:
            numbers["lake_replays"] = lake.reading
            numbers["lake_messages_replayed_total"] = lake.messages
            numbers["lake_failures_total"] = lake.failures
            numbers["lake_replays_given_up_total"] = lake.given_up
        if exchange.external.backends:
            numbers["outbox_messages"] = exchange.external.waiting
        return numbers

    def _labelled(self, totals: ClientTotals | None) -> dict[str, dict[str, float]]:
        broker = self._broker
        counters = broker.exchange.counters
        connected = broker.connections.clients
        labelled: dict[str, dict[str, float]] = {
            "connections_opened_total": self._state.opened_connections(),
            "connections": {listener.name: listener.connections for listener in self._state.listeners()},
            "refusals_total": {_label(reason_name(code)): count for code, count in counters.refusals.items()},
            "handshakes_failed_total": {_label(event): count for event, count in counters.handshakes_failed.items()},
            "drops_total": dict(counters.drops),
            "events_total": dict(counters.events),
            **_of_processes({"broker": None, **self._state.children()}),
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
        expiries = self._state.certificate_expiries()
        if expiries is not None:
            labelled["certificate_expiry_timestamp_seconds"] = expiries
        backlog = {} if broker.segment_counts is None else broker.segment_counts.by_zone
        if backlog is not None:
            labelled["segment_backlog_messages"] = {zone: float(count) for zone, count in backlog.items()}
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


def _of_processes(pids: Mapping[str, int | None]) -> dict[str, dict[str, float]]:
    """By metric and process; None stands for this process."""
    labelled: dict[str, dict[str, float]] = {}
    for process, pid in pids.items():
        for name, value in process_numbers(pid).items():
            labelled.setdefault(name, {})[process] = value
    return labelled
