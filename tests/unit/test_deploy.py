"""Dashboard and alert rules name metrics that `/metrics` has, and parts of the runbook that exist."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from holdfast.console.live.alarms import RULES as ALARM_RULES
from holdfast.console.live.metrics_text import render_metrics
from holdfast.control.metrics import COUNTER, HISTOGRAM, METRICS
from tests.docs.test_pages import anchors_of
from tests.services import need
from tests.unit.console.live.test_metrics_text import everything, own

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy/grafana/holdfast.json"
RULES = ROOT / "deploy/prometheus/holdfast.rules.yml"

_NAME = re.compile(r"\bholdfast_\w+")
_RATE = re.compile(r"(?:rate|increase)\((holdfast_\w+)")


def names() -> set[str]:
    """Every name of a sample that `/metrics` may have."""
    found: set[str] = set()
    for metric in METRICS.values():
        name = f"holdfast_{metric.name}"
        found |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if metric.kind == HISTOGRAM else {name}
    return found


def expressions() -> list[str]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return shown + re.findall(r"expr: '?(.+?)'?$", RULES.read_text(), re.MULTILINE)


def test_each_expression_names_metrics_that_there_are() -> None:
    assert len(expressions()) > 30
    for expression in expressions():
        used = set(_NAME.findall(expression))
        assert used <= names(), expression
        assert used or "up{" in expression, expression


def test_rates_are_taken_of_counters_alone() -> None:
    counters = {f"holdfast_{metric.name}" for metric in METRICS.values() if metric.kind == COUNTER}
    counters |= {name for name in names() if name.endswith("_bucket")}
    used = {name for expression in expressions() for name in _RATE.findall(expression)}
    assert used
    assert used <= counters


def test_each_rule_leads_to_a_part_of_the_runbook() -> None:
    named = re.findall(r"runbook: docs/runbook.md#(.+)$", RULES.read_text(), re.MULTILINE)
    assert len(named) == RULES.read_text().count("- alert: ")
    assert set(named) <= anchors_of(ROOT / "docs/runbook.md")


#: Alerts that are no alarms of the console, and alarms by another name.
OTHER_ALERTS = {"ConsoleAway": "", "DiskFullInADay": "", "Away": "broker_away"}


def alerts() -> dict[str, tuple[str, str]]:
    """By alert, without `Holdfast`: its alarm, empty for none, and its part of the runbook."""
    found = re.findall(r"- alert: Holdfast(\w+)\n.*?runbook.md#(\S+)$", RULES.read_text(), re.MULTILINE | re.DOTALL)
    return {name: (OTHER_ALERTS.get(name, snake(name)), anchor) for name, anchor in found}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def test_each_alarm_has_an_alert_that_leads_to_the_same_part_of_the_runbook() -> None:
    anchors = {rule.name: rule.anchor for rule in ALARM_RULES}
    assert {alarm: anchor for alarm, anchor in alerts().values() if alarm} == anchors


def promtool(*arguments: str | Path, given: str = "") -> None:
    program = need("promtool", "prometheus")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", RULES)


def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel_{number}", "expr": expression.replace("$__rate_interval", "5m").replace("$instance", ".*")}
        for number, expression in enumerate(expressions())
    ]
    # JSON is YAML.
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.yml")


def test_promtool_accepts_what_metrics_shows() -> None:
    promtool("check", "metrics", given=render_metrics((everything(), own()), openmetrics=False))


def buckets(name: str, slow: int) -> dict[str, str]:
    """A histogram that 10 values a minute go into, `slow` of them above a second."""
    counts = (("0.5", 10 - slow), ("1", 10 - slow), ("2.5", 10), ("+Inf", 10))
    return {f'{name}_bucket{{instance="a",le="{bound}"}}': f"0+{count}x300" for bound, count in counts}


def one(name: str, values: str, **labels: str) -> dict[str, str]:
    shown = ",".join(f'{label}="{value}"' for label, value in {"instance": "a", **labels}.items())
    return {f"{name}{{{shown}}}": values}


def steady(name: str, value: float, **labels: str) -> dict[str, str]:
    return one(name, f"{value:g}+0x300", **labels)


def disk(name: str, free: float) -> dict[str, str]:
    return steady(f"holdfast_{name}", free) | steady("holdfast_disk_total_bytes", 100)


def alarm(name: str) -> dict[str, str]:
    return steady("holdfast_alarm_active", 1, alarm=name)


NOTHING: dict[str, str] = {}
#: By alert: series, one value a minute, with which it fires after four hours, each by itself; and some with which not.
CASES: dict[str, tuple[list[dict[str, str]], list[dict[str, str]]]] = {
    "Away": ([steady("holdfast_up", 0)], [steady("holdfast_up", 1)]),
    "ConsoleAway": ([steady("up", 0, job="holdfast")], [steady("up", 1, job="holdfast"), steady("up", 0, job="x")]),
    "DiskLow": ([disk("disk_free_bytes", 9)], [disk("disk_free_bytes", 11)]),
    "DiskFull": ([steady("holdfast_disk_refusing", 1)], [steady("holdfast_disk_refusing", 0)]),
    "DiskFullInADay": (
        [one("holdfast_disk_free_bytes", "1000-1x300")],
        [one("holdfast_disk_free_bytes", "10000-1x300")],
    ),
    "LoopStalled": ([buckets("holdfast_loop_lag_seconds", 1)], [buckets("holdfast_loop_lag_seconds", 0)]),
    "CommitSlow": ([buckets("holdfast_commit_seconds", 1)], [buckets("holdfast_commit_seconds", 0)]),
    "SegmentsWaiting": (
        [
            steady("holdfast_segment_backlog_messages", 1_500_000, zone="a")
            | steady("holdfast_segment_backlog_messages", 600_000, zone="b")
        ],
        [steady("holdfast_segment_backlog_messages", 1_900_000, zone="a")],
    ),
    "DropsRising": (
        [one("holdfast_drops_total", "0+660x300", reason="expired")],
        [one("holdfast_drops_total", "0+540x300", reason="expired")],
    ),
    "CertificateExpiring": (
        [steady("holdfast_certificate_expiry_timestamp_seconds", 14 * 86_400, listener="tls")],
        [steady("holdfast_certificate_expiry_timestamp_seconds", 20 * 86_400, listener="tls")],
    ),
    "QueueBackendAway": (
        [steady("holdfast_queue_backend_away", 1, backend="a")],
        [steady("holdfast_queue_backend_away", 0, backend="a")],
    ),
    "LeaseLagging": (
        [
            steady("holdfast_lease_lag_seconds", 3700, lease="a") | steady("holdfast_lease_age_seconds", 2, lease="a"),
            steady("holdfast_lease_lag_seconds", 2, lease="a") | steady("holdfast_lease_age_seconds", 3700, lease="a"),
        ],
        [steady("holdfast_lease_lag_seconds", 2, lease="a") | steady("holdfast_lease_age_seconds", 2, lease="a")],
    ),
    "LeaseBroken": ([steady("holdfast_leases_broken", 1)], [steady("holdfast_leases_broken", 0)]),
    # The broker ended at the 60th minute, and nothing was scraped until it was started again.
    "Poisoned": (
        [one("holdfast_alarm_last_raised_timestamp_seconds", "_x100 3600+0x200", alarm="poisoned")],
        [
            steady("holdfast_alarm_last_raised_timestamp_seconds", 3600, alarm="disk_low"),
            steady("holdfast_alarm_last_raised_timestamp_seconds", -86_400, alarm="poisoned"),
        ],
    ),
    "Damaged": (
        [
            steady("holdfast_damage_reports", 1),
            steady("holdfast_unreadable_parts", 1),
            steady("holdfast_damage_reports", 0) | steady("holdfast_unreadable_parts", 1),
        ],
        [steady("holdfast_damage_reports", 0) | steady("holdfast_unreadable_parts", 0)],
    ),
    "ReloadFailed": (
        [one("holdfast_reload_failures_total", "0+0x230 1+0x70")],
        [one("holdfast_reload_failures_total", "0+0x100 1+0x200")],
    ),
    "ClockLeapt": ([alarm("clock_leapt")], [alarm("disk_low")]),
    "HistoryFailing": ([alarm("history_failing")], [alarm("disk_low")]),
    "CredentialsWrong": ([alarm("credentials_wrong")], [alarm("disk_low")]),
    "BlockFileWrong": ([alarm("block_file_wrong")], [alarm("disk_low")]),
}


def rule_files(folder: Path) -> dict[str, Path]:
    """A file with the one rule of each alert: with all rules in one file, each of them would judge every case."""
    head, *rules = re.split(r"(?=^ +- alert: )", RULES.read_text(), flags=re.MULTILINE)
    found: dict[str, Path] = {}
    for rule in rules:
        name = rule.split()[2].removeprefix("Holdfast")
        assert name not in found
        found[name] = folder / f"{name}.rules.yml"
        found[name].write_text(head + rule)
    return found


def test_each_alert_fires_when_it_should_and_not_when_all_is_well(tmp_path: Path) -> None:
    assert set(CASES) == set(alerts())
    files = rule_files(tmp_path)
    asked = []
    for name, (bad, good) in CASES.items():
        tests = []
        for series, count in [*((series, 1) for series in bad), *((series, 0) for series in (*good, NOTHING))]:
            firing = f'count(ALERTS{{alertname="Holdfast{name}",alertstate="firing"}})'
            samples = [{"labels": "{}", "value": 1}] if count else []
            tests.append(
                {
                    "name": f"{name} {series}",
                    "interval": "1m",
                    "input_series": [{"series": key, "values": values} for key, values in series.items()],
                    "promql_expr_test": [{"expr": firing, "eval_time": "4h", "exp_samples": samples}],
                }
            )
        asked.append(tmp_path / f"{name}.tests.yml")
        asked[-1].write_text(
            json.dumps({"rule_files": [str(files[name])], "evaluation_interval": "1m", "tests": tests})
        )
    promtool("test", "rules", *asked)
