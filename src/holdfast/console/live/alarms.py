"""Alarms: what somebody should look at, judged once a second from the broker's numbers.

    measure ≥ raise_at ─▶ active ── measure < clear_at ─▶ past        two thresholds, so that none flutters

1. Each alarm has a part of the runbook that says what to do.
2. What cannot be measured leaves an alarm as it is: a broker that is away does not make its disk healthy. A number
   that the last frame has without any label is measured: the last lease, listener or backend is gone.
3. Active and past alarms survive the process (`alarms.json`); at most 500 past ones are kept.
4. A muted alarm is active, and says until when it is muted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from holdfast.console.live.live_stats import LiveStats
from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.clock import Clock
from holdfast.model.time import DAY_S, SECOND_US

_log = structlog.get_logger()

_MAX_PAST: Final = 500
RUNBOOK: Final = "docs/runbook.md"


@dataclass(frozen=True)
class Situation:
    """What alarms are judged by."""

    live: LiveStats
    #: Seconds since the last frame; None if none ever came.
    age_s: float | None
    now_s: float
    #: Wrong files of users and tokens.
    wrong_files: tuple[str, ...] = ()
    #: Questions about the past in a row that got no answer, and why the last one did not.
    history_failures: int = 0
    history_failure: str = ""

    @property
    def block_file_problem(self) -> str:
        """What is wrong with the broker's block file; empty if nothing is, or no frame ever came."""
        return "" if self.live.last is None else self.live.last.block_file_problem

    @property
    def reload_problem(self) -> str:
        """What the broker's last reload refused; empty if nothing was, or no frame ever came."""
        return "" if self.live.last is None else self.live.last.reload_problem

    @property
    def broken_leases(self) -> str:
        """The names of leases that retention broke."""
        return ", ".join(sorted(self.labelled("lease_broken_timestamp_seconds") or ()))

    @property
    def first_certificate(self) -> tuple[str, float] | None:
        """The listener whose certificate ends first, and in how many days; None without one."""
        ends = self.labelled("certificate_expiry_timestamp_seconds")
        if not ends:
            return None
        listener = min(ends, key=ends.__getitem__)
        return listener, (ends[listener] - self.now_s) / DAY_S

    @property
    def certificate(self) -> str:
        """What there is to say of the certificate that ends first."""
        listener, days = self.first_certificate or ("", 0.0)
        when = f"ends in {days:.0f} days" if days >= 0 else f"ended {-days:.0f} days ago"
        return f"the certificate of the listener {listener} {when}"

    @property
    def damage(self) -> str:
        """What there is to say of damaged data."""
        reports, parts = self.number("damage_reports") or 0.0, self.number("unreadable_parts") or 0.0
        return (
            f"{reports:.0f} reports of damage lie in quarantine, and "
            f"{parts:.0f} parts or records could not be read since the start"
        )

    @property
    def wrong(self) -> str:
        return "; ".join(self.wrong_files)

    def number(self, name: str) -> float | None:
        return None if self.live.last is None else self.live.last.numbers.get(name)

    def labelled(self, name: str) -> dict[str, float] | None:
        """By label, empty if nothing has one; None if the last frame lacks the number, or none ever came."""
        return None if self.live.last is None else self.live.last.labelled.get(name)


@dataclass(frozen=True)
class AlarmRule:
    """A measure that is bad when it is large, and when."""

    name: str
    #: The part of the runbook that helps.
    anchor: str
    measure: Callable[[Situation], float | None]
    raise_at: float
    clear_at: float
    #: `{0}` stands for the measure, `{s}` for the situation.
    text: str


def _disk_used_share(situation: Situation) -> float | None:
    free, total = situation.number("disk_free_bytes"), situation.number("disk_total_bytes")
    return None if free is None or not total else 100.0 * (1.0 - free / total)


def _segment_backlog(situation: Situation) -> float | None:
    """Of all zones: one process builds their segments. None if it does not count them."""
    by_zone = situation.labelled("segment_backlog_messages")
    return None if by_zone is None else sum(by_zone.values())


def _days_to_expiry(situation: Situation) -> float | None:
    """Negative days until the first certificate ends, so that more is worse."""
    if situation.labelled("certificate_expiry_timestamp_seconds") is None:
        return None
    first = situation.first_certificate
    return -math.inf if first is None else -first[1]


def _largest(*names: str) -> Callable[[Situation], float | None]:
    """The largest value of several numbers with labels; 0 if nothing has a label."""

    def measure(situation: Situation) -> float | None:
        known = [values for name in names if (values := situation.labelled(name)) is not None]
        return max((value for values in known for value in values.values()), default=0.0) if known else None

    return measure


def _damage(situation: Situation) -> float | None:
    """Reports in quarantine, and parts that could not be read and were left where they are."""
    counts = [situation.number(name) for name in ("damage_reports", "unreadable_parts")]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _commit_p99(situation: Situation) -> float | None:
    """0 once nothing is committed any more and nothing waits for it."""
    p99 = _p99("commit_seconds")(situation)
    is_idle = situation.live.previous is not None and situation.number("commit_waiting") == 0.0
    return 0.0 if p99 is None and is_idle else p99


def _p99(name: str) -> Callable[[Situation], float | None]:
    return lambda situation: situation.live.quantile(name, 0.99)


RULES: Final = (
    AlarmRule("broker_away", "the-broker-is-away", lambda s: s.age_s, 5, 2, "no sign of life for {0:.0f} s"),
    AlarmRule("disk_low", "the-disk-is-full", _disk_used_share, 90, 88, "the disk is {0:.0f} % full"),
    AlarmRule(
        "disk_full", "the-disk-is-full", lambda s: s.number("disk_refusing"), 1, 1, "messages are refused: no room"
    ),
    AlarmRule(
        "poisoned",
        "a-sync-failed",
        lambda s: s.number("poisoned"),
        1,
        1,
        "a write or a sync has failed: nothing is stored any more, and the broker ends",
    ),
    AlarmRule(
        "damaged",
        "data-is-damaged",
        _damage,
        1,
        1,
        "{s.damage}",
    ),
    AlarmRule("loop_stalled", "the-event-loop-stalls", _p99("loop_lag_seconds"), 1, 0.25, "the loop is {0:g} s late"),
    AlarmRule("commit_slow", "commits-are-slow", _commit_p99, 1, 0.25, "1 % of commits take {0:g} s"),
    # A broker that is busy lets a million messages wait, and has segments built from then on.
    AlarmRule(
        "segments_waiting",
        "segments-are-not-built",
        _segment_backlog,
        2_000_000,
        1_500_000,
        "{0:,.0f} messages are in no segment: filters read all of them",
    ),
    AlarmRule("certificate_expiring", "a-certificate-ends", _days_to_expiry, -14, -20, "{s.certificate}"),
    AlarmRule(
        "drops_rising",
        "messages-are-dropped",
        lambda s: s.live.rates().get("drops_total"),
        10,
        1,
        "{0:.0f} messages a second do not reach a client",
    ),
    AlarmRule(
        "queue_backend_away", "a-queue-backend-is-away", _largest("queue_backend_away"), 1, 1, "a backend is away"
    ),
    AlarmRule(
        "lease_lagging",
        "a-lease-lags",
        # Behind, or not heard of.
        _largest("lease_lag_seconds", "lease_age_seconds"),
        3600,
        1800,
        "a pipeline is {0:.0f} s behind, or has not renewed its lease for so long",
    ),
    AlarmRule(
        "lease_broken",
        "a-lease-is-broken",
        lambda s: s.number("leases_broken"),
        1,
        1,
        "retention did not wait for: {s.broken_leases}",
    ),
    AlarmRule(
        "credentials_wrong", "a-user-or-token-file-is-wrong", lambda s: float(len(s.wrong_files)), 1, 1, "{s.wrong}"
    ),
    AlarmRule(
        "block_file_wrong",
        "the-block-file-is-wrong",
        lambda s: float(bool(s.block_file_problem)),
        1,
        1,
        "{s.block_file_problem}",
    ),
    AlarmRule(
        "reload_failed", "a-reload-is-refused", lambda s: float(bool(s.reload_problem)), 1, 1, "{s.reload_problem}"
    ),
    AlarmRule(
        "clock_leapt",
        "the-clock-leaps",
        lambda s: s.number("clock_leap_seconds"),
        1,
        1,
        "the clock leapt ahead by {0:.0f} s and is not followed",
    ),
    AlarmRule(
        "history_failing",
        "the-history-process-fails",
        lambda s: float(s.history_failures),
        3,
        1,
        "{0:.0f} questions in a row got no answer: {s.history_failure}",
    ),
)
NAMES: Final = tuple(rule.name for rule in RULES)


class Alarm(msgspec.Struct):
    """An alarm that is active, or was."""

    alarm: str
    since_us: int
    detail: str
    until_us: int | None = None
    muted_until_us: int | None = None

    def shown(self) -> dict[str, Any]:
        anchor = next(rule.anchor for rule in RULES if rule.name == self.alarm)
        return {**msgspec.structs.asdict(self), "runbook": f"{RUNBOOK}#{anchor}"}


class _Kept(msgspec.Struct):
    version: int
    active: list[Alarm]
    past: list[Alarm]


class Alarms:
    """The alarms of a broker."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path: Final = path
        self._clock: Final = clock
        kept = _load(path)
        self._active: Final = {alarm.alarm: alarm for alarm in kept.active if alarm.alarm in NAMES}
        self._past: Final = [alarm for alarm in kept.past if alarm.alarm in NAMES]

    @property
    def active_names(self) -> frozenset[str]:
        return frozenset(self._active)

    def last_raised_s(self) -> dict[str, float]:
        """By alarm: when it was last raised, in seconds since 1970; also of those that are over, as far as kept."""
        raised: dict[str, float] = {}
        for alarm in (*self._active.values(), *self._past):
            raised[alarm.alarm] = max(raised.get(alarm.alarm, 0.0), alarm.since_us / SECOND_US)
        return raised

    def judge(self, situation: Situation) -> bool:
        """Raise and clear alarms; whether any was."""
        changed = False
        for rule in RULES:
            value = rule.measure(situation)
            if value is None:
                continue
            active = self._active.get(rule.name)
            detail = rule.text.format(value, s=situation)
            if active is None and value >= rule.raise_at:
                self._active[rule.name] = Alarm(rule.name, self._clock.wall_us(), detail)
                _log.warning("alarm raised", alarm=rule.name, detail=detail)
                changed = True
            elif active is not None and value < rule.clear_at:
                active.until_us = self._clock.wall_us()
                del self._active[rule.name]
                self._past.insert(0, active)
                del self._past[_MAX_PAST:]
                _log.info("alarm cleared", alarm=rule.name)
                changed = True
            elif active is not None and value >= rule.raise_at:
                active.detail = detail
        if changed:
            self._save()
        return changed

    def mute(self, name: str, seconds: int) -> Alarm | None:
        """Mute an active alarm from now on; 0 ends that. None if it is not active."""
        active = self._active.get(name)
        if active is not None:
            active.muted_until_us = self._clock.wall_us() + seconds * SECOND_US if seconds else None
            self._save()
        return active

    def shown(self) -> dict[str, Any]:
        """Active alarms, then past ones, the newest first."""
        active = sorted(self._active.values(), key=lambda alarm: -alarm.since_us)
        return {"as_of_us": self._clock.wall_us(), "items": [alarm.shown() for alarm in (*active, *self._past)]}

    def _save(self) -> None:
        kept = _Kept(1, list(self._active.values()), self._past)
        try:
            replace_file(self._path, msgspec.json.encode(kept), mode=FILE_MODE)
        except OSError as error:
            _log.warning("alarms cannot be kept", why=error.strerror)


def _load(path: Path) -> _Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("kept alarms cannot be read, and are begun again", why=str(error))
    return _Kept(1, [], [])
