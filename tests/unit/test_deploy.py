"""Dashboard and alert rules name metrics that `/metrics` has, and parts of the runbook that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.live.metrics_text import render_metrics
from holdfast.control.metrics import COUNTER, HISTOGRAM, METRICS
from tests.docs.test_pages import anchors_of
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


def promtool(*arguments: str | Path, given: str = "") -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; run: apt-get install prometheus")
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
