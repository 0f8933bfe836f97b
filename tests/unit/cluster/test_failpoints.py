"""Failpoints: a point that was named has its effect, at its time and once; without one, nothing is in the way."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cluster import failpoints
from holdfast.cluster.failpoints import FILE, KILL_AT, POINTS, STOP_AT
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import AppendResult, LogEntry
from holdfast.durable.state_machine.outcome import APPLIED, Outcome
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.records.cluster.items import Claim, Item, ReadRegistration, Release, Tick
from holdfast.records.cluster.record import ClusterRecord, encode_record
from tests.unit.cluster.node_world import Listener
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

CLAIM = Claim("c", 1, (1, 1, 1), 0)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


class Signals:
    """What this process was sent, and what had happened by then."""

    def __init__(self, **environment: str) -> None:
        self.sent: list[int] = []
        self.events: list[str] = []
        failpoints.arm(environment, self._send)

    def _send(self, number: int) -> None:
        self.sent.append(number)
        self.events.append(signal.Signals(number).name)

    def answered(self, _result: AppendResult) -> None:
        self.events.append("answered")


def record(*items: Item, number: int = 1) -> bytes:
    return encode_record(ClusterRecord(CLUSTER_ID, 1, 1, number, 0, 0, [], list(items)))


def memory_log() -> MemoryOrderedLog:
    return MemoryOrderedLog(ManualClock(), "memory")


def test_without_a_variable_logs_and_listeners_are_the_ones_that_were_given() -> None:
    failpoints.arm({"HOLDFAST_OTHER": "claim.applied"})
    log, listener = memory_log(), Listener()
    assert failpoints.watch_log(log, CLUSTER_ID) is log
    assert failpoints.watch_outcomes(listener, CLUSTER_ID) is listener
    failpoints.reach("open.claimed")


@pytest.mark.parametrize("moment", ["sending", "answered"])
def test_a_record_is_seen_before_it_is_sent_and_before_its_answer_is_handed_on(moment: str) -> None:
    signals = Signals(**{KILL_AT: f"claim.{moment}"})
    log = memory_log()
    log.hold_appends = True
    watched = failpoints.watch_log(log, CLUSTER_ID)
    watched.append(record(CLAIM, Tick()), signals.answered)
    assert signals.sent == ([signal.SIGKILL] if moment == "sending" else [])
    log.arrive()
    assert signals.events == ["SIGKILL", "answered"]


@pytest.mark.parametrize(("moment", "told_before"), [("applied", 0), ("told", 1)])
def test_an_outcome_is_seen_when_it_is_written_and_again_when_it_was_told(moment: str, told_before: int) -> None:
    listener = Listener()
    told: list[int] = []

    def note(_signal: int) -> None:
        told.append(len(listener.told))

    failpoints.arm({STOP_AT: f"release.{moment}"}, note)
    outcome = Outcome(1, APPLIED)
    outcome.accepted.extend([False, True])
    entry = LogEntry(1, 0, record(CLAIM, Release("c", 1, goodbye=True)))
    failpoints.watch_outcomes(listener, CLUSTER_ID).applied(entry, outcome)
    assert told == [told_before]


def test_an_item_that_was_not_accepted_and_a_record_that_does_not_count_reach_no_point() -> None:
    signals = Signals(**{KILL_AT: "claim.applied"})
    watched = failpoints.watch_outcomes(Listener(), CLUSTER_ID)
    outcome = Outcome(1, APPLIED)
    outcome.accepted.append(False)
    watched.applied(LogEntry(1, 0, record(CLAIM)), outcome)
    watched.applied(LogEntry(2, 0, record(CLAIM)), Outcome(2, "repeated"))
    watched.applied(LogEntry(3, 0, b"of someone else"), Outcome(3, "foreign"))
    assert signals.sent == []


def test_a_point_takes_effect_at_its_time_and_once() -> None:
    signals = Signals(**{KILL_AT: "open.claimed:3", STOP_AT: "open.covered"})
    for point in ("open.claimed", "open.claimed", "open.covered", "open.claimed", "open.claimed", "open.covered"):
        failpoints.reach(point)
    assert signals.events == ["SIGSTOP", "SIGKILL"]


def test_a_file_names_points_while_the_process_runs_and_is_gone_when_one_takes_effect(tmp_path: Path) -> None:
    file = tmp_path / "points"
    signals = Signals(**{FILE: str(file)})
    failpoints.reach("open.claimed")
    file.write_text("stop open.claimed:2\n")
    failpoints.reach("open.claimed")
    assert file.exists()
    failpoints.reach("open.claimed")
    assert signals.events == ["SIGSTOP"]
    assert not file.exists()
    file.write_text("kill open.claimed")
    failpoints.reach("open.claimed")
    assert signals.events == ["SIGSTOP", "SIGKILL"]


def test_a_trim_is_seen_before_and_after() -> None:
    signals = Signals(**{KILL_AT: "trim.done", STOP_AT: "trim.sending"})
    log = memory_log()
    for number in (1, 2):
        log.append(record(Tick(), number=number), signals.answered)
    signals.events.clear()
    asyncio.run(failpoints.watch_log(log, CLUSTER_ID).trim(2))
    assert signals.events == ["SIGSTOP", "SIGKILL"]
    assert asyncio.run(log.ends()).first == 2


@pytest.mark.parametrize("named", ["claim", "claim.applied:0", "claim.applied:x", "claim.unheard", ":1"])
def test_a_point_that_does_not_exist_is_refused_with_those_that_do(named: str) -> None:
    with pytest.raises(SettingsError, match=f"kill {named} is no failpoint; right would be .*claim.applied"):
        failpoints.arm({KILL_AT: named})


def test_every_point_stands_in_the_table() -> None:
    table = failpoints.__doc__ or ""
    for point in POINTS:
        step, moment = point.split(".")
        assert point in table or (f"\n    {step}" in table and f"\n    {moment}" in table)
    assert "open.unheard" not in POINTS


def test_a_read_reaches_no_point() -> None:
    signals = Signals(**{KILL_AT: "claim.sending"})
    failpoints.watch_log(memory_log(), CLUSTER_ID).append(record(ReadRegistration("c")), signals.answered)
    assert signals.events == ["answered"]
