"""A declared pipeline on Spark: what it gives is what a plain calculation gives, also when it was killed on its way."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.model.errors import PermanentError
from holdfast.pipeline.declared import steps
from holdfast.pipeline.declared.job import run_declared
from holdfast.pipeline.declared.parser import DeclarationError, load
from tests.spark.declared_pipeline import MIDNIGHT, Expected, Found, declare, reading, some
from tests.spark.publishers import Broker, Sent
from tests.unit.pipeline.declared.sparkplug_payloads import metric, payload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "run")
#: One after the other. Between a table with windows and Spark's own note; HOLDFAST_RUN_FAULTS names more, with commas,
#: such as run-quarantined-decode,run-done-deduplicate: pipeline/spark/fault_points.py has them all.
FAULTS = os.environ.get("HOLDFAST_RUN_FAULTS", "run-committed-per_minute").split(",")
DEADLINE_S = 300.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "shards = 3\n") as running:
        yield running


def test_a_pipeline_gives_what_a_plain_calculation_gives(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    first = broker.publish(some(0, 200))
    file = declare(tmp_path, broker, batch=150)
    outcome = run_declared(load(file), spark)

    expected, found = Expected(first), Found(tmp_path, broker)
    assert found.rows() == sorted(expected.rows)
    assert found.windows() == expected.windows()
    assert found.published() == expected.windows()
    assert found.quarantined() == expected.quarantined == outcome.quarantined
    assert (outcome.messages, outcome.duplicates) == (expected.messages, expected.duplicates)
    assert outcome.decoded == expected.messages - expected.quarantined["decode"]
    assert outcome.dropped == {"indoors": expected.dropped}
    assert outcome.windows == {"per_minute": len(expected.windows())}
    assert outcome.published == {"publish_2": len(expected.windows())}

    # It goes on where it was: with what was seen, and with windows that were not over. One reading is too late.
    late = reading(1_000, seconds=1.0)
    second = broker.publish([*some(200, 100), late])
    done = CliRunner().invoke(app, ["spark", "run", str(file), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)

    expected = Expected([*first, *second])
    assert found.rows() == sorted(expected.rows)
    assert told["messages"] == len(second)
    assert told["late"] == {"per_minute": 1}
    in_time = Expected([*first, *second[:-1]]).windows()
    assert found.windows() == found.published() == in_time
    assert len(in_time) > len(Expected(first).windows())
    assert not [row for row in found.windows() if row[0] == MIDNIGHT and row[2] > 30]


def test_kills_leave_no_trace(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended between the two tables of a batch, then killed, then run to its end: as if nothing had happened."""
    sent = broker.publish(some(0, 200))
    file = declare(tmp_path, broker)

    def ended(name: str) -> None:
        if name == "run-quarantined-decode":
            raise PermanentError("the end")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "fault", ended)
        with pytest.raises(PermanentError, match="the end"):
            run_declared(load(file), spark)
    found = Found(tmp_path, broker)
    assert found.quarantined() == Expected(sent).quarantined
    assert found.table("state/tables/accepted") == []

    for fault in FAULTS:
        environment = {**os.environ, "HOLDFAST_FAULT": fault}
        done = subprocess.run(
            [*COMMAND, str(file), "--master", "local[2]"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == -9, (fault, done.stdout, done.stderr)

    outcome = run_declared(load(file), spark)

    expected = Expected(sent)
    assert found.rows() == sorted(expected.rows)
    assert found.quarantined() == expected.quarantined
    assert found.windows() == found.published() == expected.windows()
    # All was read before; only what the last kill had begun is done again.
    assert outcome.messages == 0
    known = {
        name for table in ("lake/rows", "lake/per_minute", "state/tables/quarantine") for name in found.files(table)
    }
    assert {path.name for path in tmp_path.glob("**/day=*/*.parquet")} == known, "files are left"


def test_expressions_are_checked_before_anything_runs(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.publish(some(0, 5))
    file = declare(tmp_path, broker, more="payload = \"named_struct('a', 1)\"\n")
    text = (
        file.read_text(encoding="utf-8").replace("celsius BETWEEN", "celsus BETWEEN").replace("hall <>", "hall ++ <>")
    )
    text = text.replace("max(celsius)", "celsius + 1")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError) as caught:
        run_declared(load(file), spark)
    lines = str(caught.value).splitlines()
    places = [text[: text.index(what)].count("\n") + 1 for what in ("celsus", "hall ++", "celsius + 1")]
    assert [line.split(" ")[0] for line in lines] == [f"pipeline.toml:{place}:" for place in places]
    assert "celsus" in lines[0]
    assert not (tmp_path / "state").exists()


def test_a_rule_may_end_it_and_then_nothing_is_written(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.publish(some(0, 40))
    file = declare(tmp_path, broker)
    text = file.read_text(encoding="utf-8").replace('on_fail = "drop"', 'on_fail = "fail"')
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PermanentError, match=r"pipeline\.toml:\d+: rule indoors fails the pipeline: 1 rows .* topic"):
        run_declared(load(file), spark)
    assert Found(tmp_path, broker).rows() == []


def test_aliases_of_sparkplug_are_known_from_run_to_run(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    source = f'[source]\ndata = "{broker.data}"\ntopic = "spBv1.0/#"\n[decode]\nformat = "sparkplug_b"\n'
    sink = '[[sink]]\nkind = "delta"\nof = "rows"\npath = "lake/rows"\n'
    file.write_text(f'name = "edge"\nstate = "state"\n{source}{sink}', encoding="utf-8")
    birth = payload(metric(20.0, name="celsius", alias=7), metric("on", "String", name="state", alias=8))
    broker.publish([Sent("spBv1.0/plant/NBIRTH/edge", birth), Sent("spBv1.0/plant/NDATA/other", birth[:-5])])
    first = run_declared(load(file), spark)
    broker.publish([Sent("spBv1.0/plant/NDATA/edge", payload(metric(21.5, alias=7), metric(1.0, alias=9)))])
    second = run_declared(load(file), spark)

    found = [(row["message_type"], row["metric"], row["value"]) for row in Found(tmp_path, broker).table("lake/rows")]
    wanted = [("NBIRTH", "celsius", 20.0), ("NBIRTH", "state", None), ("NDATA", "celsius", 21.5)]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert (first.messages, first.passed, first.quarantined) == (2, 2, {"decode": 1})
    assert (second.messages, second.passed, second.quarantined) == (1, 1, {"decode": 1})
    why = {row["why"] for row in Found(tmp_path, broker).table("state/tables/quarantine")}
    assert "alias 9 of plant/edge is not known: the log has no birth before it" in why
