"""Alarms."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.console.live.alarms import RULES, Alarms, Situation
from holdfast.console.live.live_stats import LiveStats
from holdfast.control.metrics import METRICS
from holdfast.control.words import Histogram, Stats
from holdfast.model.clock import ManualClock
from holdfast.model.time import DAY_S, SECOND_US
from tests.unit.console.stats_frames import frame

ROOT = Path(__file__).resolve().parents[4]


def situation(*frames: Stats, age_s: float = 0, wrong: tuple[str, ...] = (), failures: int = 0) -> Situation:
    live = LiveStats()
    for number, stats in enumerate(frames):
        live.take(stats, number)
    return Situation(live, age_s, 1_800_000_000, wrong, failures, "it does not answer")


def labelled(name: str, value: float) -> Stats:
    stats = frame(1)
    return Stats(stats.at_us, stats.numbers, {name: {"a": 0.0, "b": value}}, {}, "taking")


def slow(name: str, seconds: float) -> tuple[Stats, Stats]:
    bounds = METRICS[name].bounds
    nothing = [0] * (len(bounds) + 1)
    some = list(nothing)
    some[next(index for index, bound in enumerate(bounds) if bound >= seconds)] = 5
    return frame(0, histograms={name: Histogram(tuple(nothing), 0)}), frame(
        1, histograms={name: Histogram(tuple(some), 0)}
    )


def idle(name: str) -> tuple[Stats, Stats]:
    some = Histogram((5,) * (len(METRICS[name].bounds) + 1), 0)
    return frame(0, histograms={name: some}), frame(1, histograms={name: some})


def dropping(rate: float) -> tuple[Stats, Stats]:
    first, second = frame(0), frame(1)
    return (
        Stats(first.at_us, first.numbers, {"drops_total": {"expired": 0.0}}, {}),
        Stats(second.at_us, second.numbers, {"drops_total": {"expired": rate}}, {}),
    )


NOW_S = 1_800_000_000
BAD = {
    "broker_away": (situation(age_s=6), situation(age_s=3), situation(age_s=1)),
    "disk_low": tuple(situation(frame(1, disk_free_bytes=free, disk_total_bytes=100)) for free in (9, 11, 13)),
    "disk_full": tuple(situation(frame(1, disk_refusing=value)) for value in (1, 1, 0)),
    "loop_stalled": tuple(situation(*slow("loop_lag_seconds", seconds)) for seconds in (1, 0.5, 0.1)),
    "commit_slow": tuple(situation(*slow("commit_seconds", seconds)) for seconds in (2.5, 0.25, 0.01)),
    "segments_waiting": tuple(
        situation(Stats(1, {}, {"segment_backlog_messages": {"default": count - 1e6, "plant": 1e6}}, {}))
        for count in (2_000_000, 1_700_000, 1_000_000)
    ),
    "certificate_expiring": tuple(
        situation(labelled("certificate_expiry_timestamp_seconds", NOW_S + days * DAY_S)) for days in (13, 17, 30)
    ),
    "drops_rising": tuple(situation(*dropping(rate)) for rate in (11, 5, 0)),
    "queue_backend_away": tuple(situation(labelled("queue_backend_away", value)) for value in (1, 1, 0)),
    "lease_lagging": tuple(situation(labelled("lease_age_seconds", value)) for value in (3600, 2000, 1000)),
    "poisoned": tuple(situation(frame(1, poisoned=value)) for value in (1, 1, 0)),
    "damaged": tuple(situation(frame(1, damage_reports=count, unreadable_parts=0)) for count in (2, 1, 0)),
    "lease_broken": tuple(situation(frame(1, leases_broken=count)) for count in (2, 1, 0)),
    "credentials_wrong": (situation(wrong=("users:3",)), situation(wrong=("users:3",)), situation()),
    "block_file_wrong": tuple(
        situation(Stats(1, {}, {}, {}, block_file_problem=problem)) for problem in ("blocks:2", "blocks:2", "")
    ),
    "reload_failed": tuple(
        situation(Stats(1, {}, {}, {}, reload_problem=problem))
        for problem in ("access: a.acl:2", "access: a.acl:2", "")
    ),
    "clock_leapt": tuple(situation(frame(1, clock_leap_seconds=leap_s)) for leap_s in (600, 400, 0)),
    "history_failing": tuple(situation(failures=failures) for failures in (3, 2, 0)),
}


@pytest.mark.parametrize("name", BAD)
def test_an_alarm_is_raised_stays_between_its_thresholds_and_is_cleared(tmp_path: Path, name: str) -> None:
    if name == "certificate_expiring":
        # The other certificate of `labelled` ended in 1970, so only one that has one is looked at.
        for one in BAD[name]:
            assert one.live.last is not None
            one.live.last.labelled["certificate_expiry_timestamp_seconds"].pop("a", None)
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    raised, between, cleared = BAD[name]
    assert alarms.judge(raised)
    assert name in alarms.active_names
    alarms.judge(between)
    assert name in alarms.active_names
    alarms.judge(cleared)
    assert name not in alarms.active_names
    past = next(item for item in alarms.shown()["items"] if item["alarm"] == name)
    assert past["until_us"] is not None


#: By alarm: what its frame has once the listener, backend, lease or zone is gone, or nothing is committed.
GONE = {
    "segments_waiting": (situation(Stats(1, {}, {"segment_backlog_messages": {}}, {})),),
    "certificate_expiring": (situation(Stats(1, {}, {"certificate_expiry_timestamp_seconds": {}}, {})),),
    "queue_backend_away": (situation(Stats(1, {}, {"queue_backend_away": {}}, {})),),
    "lease_lagging": (situation(Stats(1, {}, {"lease_age_seconds": {}, "lease_lag_seconds": {}}, {})),),
    "commit_slow": (
        situation(
            *(replace(one, numbers={**one.numbers, "commit_waiting": 0.0}) for one in idle("commit_seconds")),
        ),
    ),
}


@pytest.mark.parametrize("name", GONE)
def test_an_alarm_of_what_is_gone_is_cleared(tmp_path: Path, name: str) -> None:
    (gone,) = GONE[name]
    Alarms(tmp_path / "alarms.json", ManualClock()).judge(BAD[name][0])
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    alarms.judge(situation(frame(1)))
    assert alarms.active_names == {name}, "a frame without the number says nothing"
    alarms.judge(gone)
    assert alarms.active_names == frozenset()


def test_commits_stay_slow_while_one_waits_for_its_sync(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    alarms.judge(BAD["commit_slow"][0])
    waits = (replace(one, numbers={**one.numbers, "commit_waiting": 1.0}) for one in idle("commit_seconds"))
    alarms.judge(situation(*waits))
    assert alarms.active_names == {"commit_slow"}


def test_the_certificate_that_ends_first_is_named(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    ends: dict[str, float] = {"tls": NOW_S + 3 * DAY_S, "ws": NOW_S + 30 * DAY_S}
    alarms.judge(situation(Stats(1, {}, {"certificate_expiry_timestamp_seconds": ends}, {})))
    assert alarms.shown()["items"][0]["detail"] == "the certificate of the listener tls ends in 3 days"
    ends["ws"] = NOW_S - 3 * DAY_S
    alarms.judge(situation(Stats(1, {}, {"certificate_expiry_timestamp_seconds": ends}, {})))
    assert alarms.shown()["items"][0]["detail"] == "the certificate of the listener ws ended 3 days ago"


def test_damage_is_told_as_reports_and_as_parts(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    alarms.judge(situation(frame(1, damage_reports=2, unreadable_parts=3)))
    assert alarms.shown()["items"][0]["detail"] == (
        "2 reports of damage lie in quarantine, and 3 parts or records could not be read since the start"
    )


def test_a_lease_that_is_renewed_and_behind_lags(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    leases = {"lease_lag_seconds": {"a": 7200.0}, "lease_age_seconds": {"a": 2.0}}
    alarms.judge(situation(Stats(1, {}, leases, {})))
    assert alarms.active_names == {"lease_lagging"}


def test_parts_that_cannot_be_read_are_damage_without_a_report(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    alarms.judge(situation(frame(1, damage_reports=0, unreadable_parts=1)))
    assert alarms.active_names == {"damaged"}


def test_a_broken_lease_is_named(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    broken = {"lease_broken_timestamp_seconds": {"report": 5.0, "archive": 6.0}}
    alarms.judge(situation(Stats(1, {"leases_broken": 2.0}, broken, {})))
    (item,) = alarms.shown()["items"]
    assert (item["alarm"], item["detail"]) == ("lease_broken", "retention did not wait for: archive, report")


def test_every_alarm_is_tested() -> None:
    assert set(BAD) == {rule.name for rule in RULES}


def test_what_cannot_be_measured_leaves_an_alarm_as_it_is(tmp_path: Path) -> None:
    alarms = Alarms(tmp_path / "alarms.json", ManualClock())
    alarms.judge(situation(frame(1, disk_refusing=1)))
    alarms.judge(situation(age_s=60))
    assert alarms.active_names == {"disk_full", "broker_away"}


def test_alarms_survive_the_process(tmp_path: Path) -> None:
    clock = ManualClock()
    alarms = Alarms(tmp_path / "alarms.json", clock)
    alarms.judge(situation(age_s=60))
    alarms.mute("broker_away", 100)
    again = Alarms(tmp_path / "alarms.json", clock)
    (item,) = again.shown()["items"]
    assert item["muted_until_us"] == clock.wall_us() + 100 * SECOND_US
    again.judge(situation(age_s=0))
    assert Alarms(tmp_path / "alarms.json", clock).shown()["items"][0]["until_us"] is not None


def test_when_an_alarm_was_last_raised_is_known_after_its_end_and_after_the_process(tmp_path: Path) -> None:
    clock = ManualClock()
    alarms = Alarms(tmp_path / "alarms.json", clock)
    for poisoned in (1, 0, 1, 0):
        alarms.judge(situation(frame(1, poisoned=poisoned)))
        clock.advance(10 * SECOND_US)
    last_s = clock.wall_us() / SECOND_US - 20
    assert alarms.last_raised_s() == {"poisoned": last_s}
    alarms.judge(situation(age_s=60))
    again = Alarms(tmp_path / "alarms.json", clock)
    assert again.last_raised_s() == {"poisoned": last_s, "broker_away": last_s + 20}


def test_a_damaged_file_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "alarms.json").write_text("{")
    assert Alarms(tmp_path / "alarms.json", ManualClock()).shown()["items"] == []


def test_each_alarm_has_its_part_of_the_runbook() -> None:
    text = (ROOT / "docs/runbook.md").read_text()
    headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {rule.anchor for rule in RULES} <= anchors
