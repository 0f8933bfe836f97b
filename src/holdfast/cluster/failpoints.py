"""Failpoints: places at which a test has a node killed or stopped, as a power cut, a crash or a debugger would.

    HOLDFAST_KILL_AT=claim.applied holdfast serve …      kill -9 of this process when it applies a claim
    HOLDFAST_KILL_AT=claim.applied:3                     … its third one
    HOLDFAST_STOP_AT=claim.applied                       SIGSTOP instead: a test does something, and sends SIGCONT
    HOLDFAST_FAILPOINTS=/tmp/node-1                      a file with `kill claim.applied` or `stop claim.applied:3`,
                                                         read at every point, and removed when it takes effect

    step      when a record has
    ────────  ─────────────────────────────────────────────────────────
    append    a message of a client
    claim     the claim of a channel
    release   the end of a channel
    inflight  a QoS 2 message that a subscriber is to be sent
    assign    a QoS 2 message of a group that a member is to be sent
    will      a will whose time has come
    border    the begin of a generation
    drop      the end of a generation
    tick      the sign of life of a node, or of a leader

    moment    of such a record
    ────────  ─────────────────────────────────────────────────────────
    sending   this node is about to append it
    answered  the log has answered this node with its sequence
    applied   its outcome is in this node's tables, and no client is told yet
    told      receipts and messages went to the exchange

    point            of a step that is no record
    ───────────────  ────────────────────────────────────────────────────────────────────────────────
    begin.asking     this node is about to ask another one to freeze a channel
    begin.asked      this node is asked to freeze a channel that it has
    begin.frozen     the channel's work is committed; the answer was not sent
    open.claimed     the claim counts; the stored session is not loaded
    open.covered     everything that the stored session names is applied here
    trim.sending     this node is about to trim a log
    trim.done        the log is trimmed
    install.sending  this node is asked for a checkpoint, and sends its first piece
    install.begun    this node asks for a checkpoint, with an empty folder or a log that begins later
    install.piece    a piece of it is stored
    install.copied   all of it is stored, and not in use
    install.moved    the database before it is set aside, and none is in its place
    install.swapped  it is in place, beside what is left of the installation
    install.cleaned  only the file that says its step is left
    install.done     it is in use; the node follows the logs

1. Without these variables nothing happens, and nothing is looked up on the way of a record: `arm` is called once, when
   a node starts, and logs and listeners are wrapped only if a point was named.
2. A point that does not exist is a SettingsError at the start, and ends a process that finds it in its file.
3. The states of a record are seen from outside, by its bytes: the rules and the codecs know of no failpoint.
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from holdfast.cluster.vnodes.applier import ApplierStop, OutcomeListener
from holdfast.durable.ordered_log import (
    Answered,
    AppendResult,
    LogEnds,
    LogEntry,
    LogReader,
    LogReading,
    OrderedLog,
    UnknownOutcome,
)
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.model.errors import SettingsError
from holdfast.records.cluster.items import (
    Assign,
    Border,
    Claim,
    DropGeneration,
    Item,
    MessageItem,
    Release,
    Tick,
    WillDue,
)
from holdfast.records.cluster.record import decode_record
from holdfast.records.cluster.session_steps import KEEP_INFLIGHT, StepItem

KILL_AT: Final = "HOLDFAST_KILL_AT"
STOP_AT: Final = "HOLDFAST_STOP_AT"
FILE: Final = "HOLDFAST_FAILPOINTS"

STEPS: Final = ("append", "claim", "release", "inflight", "assign", "will", "border", "drop", "tick")
MOMENTS: Final = ("sending", "answered", "applied", "told")
#: Every point, by name.
POINTS: Final = frozenset(
    {
        *(f"{step}.{moment}" for step in STEPS for moment in MOMENTS),
        *("begin.asking", "begin.asked", "begin.frozen", "open.claimed", "open.covered", "trim.sending", "trim.done"),
        *("install.sending", "install.begun", "install.piece", "install.copied"),
        *("install.moved", "install.swapped", "install.cleaned", "install.done"),
    }
)
_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Failpoint:
    """What happens at a point, at its n-th time."""

    def __init__(self, action: str, named: str) -> None:
        """`named` is a point, perhaps with the number of its time: `claim.applied:3`."""
        point, _colon, times = named.partition(":")
        if point not in POINTS or action not in _SIGNALS or not (times or "1").isdecimal() or times == "0":
            raise SettingsError(
                f"{action} {named} is no failpoint; right would be kill or stop, one of {', '.join(sorted(POINTS))}, "
                "and perhaps at which time, as in claim.applied:3"
            )
        self.point: Final = point
        self.signal: Final = _SIGNALS[action]
        self.left = int(times or "1")


class Failpoints:
    """The points of this process that have an effect."""

    def __init__(self, failpoints: list[Failpoint], file: Path | None, send: Callable[[int], None]) -> None:
        """`send` sends a signal to this process."""
        self._failpoints = failpoints
        self._file: Final = file
        self._send: Final = send
        self._text = ""
        self._from_file: Failpoint | None = None

    def reach(self, point: str) -> None:
        """This process is at a point."""
        for failpoint in [*self._failpoints, *self._in_file()]:
            if failpoint.point == point:
                failpoint.left -= 1
                if failpoint.left == 0:
                    self._forget(failpoint)
                    self._send(failpoint.signal)

    def _in_file(self) -> list[Failpoint]:
        if self._file is None:
            return []
        try:
            text = self._file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            text = ""
        if text != self._text:
            self._text = text
            action, _space, named = text.partition(" ")
            self._from_file = Failpoint(action, named) if text else None
        return [] if self._from_file is None else [self._from_file]

    def _forget(self, failpoint: Failpoint) -> None:
        if failpoint is self._from_file and self._file is not None:
            self._file.unlink()
            self._text, self._from_file = "", None
        else:
            self._failpoints.remove(failpoint)


_armed: Failpoints | None = None


def arm(environment: Mapping[str, str], send: Callable[[int], None] | None = None) -> None:
    """Let points have the effect that the environment names. SettingsError: it names one that does not exist."""
    global _armed
    named = [("kill", environment.get(KILL_AT, "")), ("stop", environment.get(STOP_AT, ""))]
    failpoints = [Failpoint(action, point) for action, point in named if point]
    file = environment.get(FILE)
    path = None if file is None else Path(file)
    _armed = Failpoints(failpoints, path, send or _send_to_self) if failpoints or path else None


def _send_to_self(number: int) -> None:
    os.kill(os.getpid(), number)


def reach(point: str) -> None:
    """This process is at a point that is no record: see the table above. For ways that are not those of messages."""
    if _armed is not None:
        _armed.reach(point)


def watch_log(log: OrderedLog, cluster_id: bytes) -> OrderedLog:
    """A log whose appends and trims reach points; the log itself if no point has an effect."""
    return log if _armed is None else _WatchedLog(log, cluster_id)


def watch_outcomes(listener: OutcomeListener, cluster_id: bytes) -> OutcomeListener:
    """A listener whose outcomes reach points; the listener itself if no point has an effect."""
    return listener if _armed is None else _WatchedOutcomes(listener, cluster_id)


class _WatchedLog:
    """An `OrderedLog` by shape."""

    def __init__(self, log: OrderedLog, cluster_id: bytes) -> None:
        self._target: Final = log
        self._cluster_id: Final = cluster_id

    def append(self, record: bytes, answered: Answered) -> None:
        steps = _steps(record, self._cluster_id)

        def note(result: AppendResult) -> None:
            if not isinstance(result, UnknownOutcome):
                _reach_all(steps, "answered")
            answered(result)

        _reach_all(steps, "sending")
        self._target.append(record, note)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        return self._target.read(from_sequence, reader)

    async def ends(self) -> LogEnds:
        return await self._target.ends()

    async def trim(self, before_sequence: int) -> None:
        reach("trim.sending")
        await self._target.trim(before_sequence)
        reach("trim.done")


class _WatchedOutcomes:
    """An `OutcomeListener` by shape."""

    def __init__(self, listener: OutcomeListener, cluster_id: bytes) -> None:
        self._listener: Final = listener
        self._cluster_id: Final = cluster_id

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        steps = _steps(entry.record, self._cluster_id, outcome.accepted)
        _reach_all(steps, "applied")
        self._listener.applied(entry, outcome)
        _reach_all(steps, "told")

    def stopped(self, stop: ApplierStop) -> None:
        self._listener.stopped(stop)


def _reach_all(steps: list[str], moment: str) -> None:
    for step in steps:
        reach(f"{step}.{moment}")


def _steps(value: bytes, cluster_id: bytes, accepted: list[bool] | None = None) -> list[str]:
    """The steps in a record, each once, in order; if it was decided, those that were accepted."""
    record = decode_record(value, cluster_id)
    items = [] if record is None else record.items
    decided = [True] * len(items) if accepted is None else accepted
    found = [_step_of(item) for item, counts in zip(items, decided, strict=False) if counts]
    return [step for step in dict.fromkeys(found) if step]


_STEP_OF: Final[dict[type[object], str]] = {
    MessageItem: "append",
    Claim: "claim",
    Release: "release",
    Assign: "assign",
    WillDue: "will",
    Border: "border",
    DropGeneration: "drop",
    Tick: "tick",
}


def _step_of(item: Item) -> str:
    if isinstance(item, StepItem):
        return "inflight" if item.step == KEEP_INFLIGHT else ""
    return _STEP_OF.get(type(item), "")
