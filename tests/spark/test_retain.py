"""Erasure with a broker that runs, on Spark, and killed with kill -9 at every step: the end is always the same.

HOLDFAST_RETAIN_SPARK_KILLS=10 digs deeper.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.pipeline.lake.erasures import erasures_of
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from holdfast.pipeline.source.history_frame import history
from holdfast.pipeline.spark.runner import SparkRunner
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Subscription
from holdfast.wire.properties import Properties
from tests.spark.lakes import archive
from tests.spark.publishers import Broker, Sent

KILLS = int(os.environ.get("HOLDFAST_RETAIN_SPARK_KILLS", "1"))
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "retain")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * KILLS)]
SECRET = "meter-7"


def fill(broker: Broker, first: int) -> None:
    broker.publish(
        Sent(f"home/{number % 9}/temp", b"%d" % number, client_id=f"meter-{number // 10 % 10}", retain=number % 50 == 0)
        for number in range(first, first + 500)
    )


def without(broker: Broker, *clients: str) -> list[bytes]:
    return sorted(message.payload for message in broker.sent if message.client_id not in clients)


def archived(lake: Path) -> list[bytes]:
    return sorted(DeltaTable(str(lake)).to_pyarrow_table(columns=["payload"])["payload"].to_pylist())


def test_what_is_erased_is_gone_for_everybody(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(broker, 0)
    archive(spark, broker, lake)
    fill(broker, 500)  # not archived yet
    where = ["--lake", str(lake), "--data", str(broker.data), "--erase-client", SECRET, "--json"]

    would = CliRunner().invoke(app, ["spark", "retain", *where, "--dry-run"])
    assert (would.exit_code, json.loads(would.stdout)["erased_rows"]) == (0, 50), would.output
    assert len(archived(lake)) == 500
    done = CliRunner().invoke(app, ["spark", "retain", *where])

    assert (done.exit_code, json.loads(done.stdout)["erased_rows"]) == (0, 50), done.output
    assert history(spark, path=broker.data).where(f"client_id = '{SECRET}'").count() == 0
    archive(spark, broker, lake)
    both = history(spark, path=broker.data, lake=lake, columns=["payload"]).collect()
    assert sorted(bytes(row.payload) for row in both) == archived(lake) == without(broker, SECRET)
    retained = spark.read.format("holdfast").options(path=str(broker.data), table="retained").load()
    assert SECRET not in {row.client_id for row in retained.collect()}
    assert {row["kind"]: row["rows"] for row in erasures_of(lake).to_pylist()} == {"erased": 50, "unarchived": 50}
    broker.process.wait_for("messages are erased")
    assert sorted(asyncio.run(replayed(broker, len(without(broker, SECRET))))) == without(broker, SECRET)


async def replayed(broker: Broker, count: int) -> list[bytes]:
    """What an MQTT client gets first that asks for everything."""
    found: list[bytes] = []
    async with Client(ConnectionOptions(port=broker.process.ports["tcp"], client_id="reader")) as client:
        since = Properties(user_properties=(("replay-from", "earliest"),))
        await client.subscribe([Subscription(parse_filter(b"home/#"), 1)], properties=since)
        while len(found) < count:
            message = await client.receive()
            client.acknowledge(message)
            found.append(message.payload)
    return found


def spark_retain(broker: Broker, lake: Path, client: str, fault: str = "") -> "subprocess.Popen[str]":
    """The command, which dies at the fault."""
    words = ["--lake", str(lake), "--data", str(broker.data), "--erase-client", client, "--master", "local[2]"]
    environment = {**os.environ, "HOLDFAST_FAULT": fault}
    return subprocess.Popen([*COMMAND, *words], env=environment, stderr=subprocess.PIPE, text=True)


def check_erased(spark: SparkSession, broker: Broker, lake: Path, client: str, *erased: str) -> None:
    """One more run, and nothing of these clients is left, nor any file that the table does not know."""
    run_retain(RetainJob(lake, broker.data, client=client, by="test"), lambda: SparkRunner(spark))

    assert archived(lake) == without(broker, client, *erased)
    assert len(list(lake.glob("day=*/**/*.parquet"))) == len(DeltaTable(str(lake)).file_uris())


def test_a_kill_of_the_command_at_any_step_is_made_good_by_the_next_run(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    fill(broker, 0)
    erased: list[str] = []
    for number, fault in enumerate(["retain-hidden", "retain-written", "retain-committed"]):
        lakes = [tmp_path / f"killed-{number}", tmp_path / f"undisturbed-{number}"]
        for lake in lakes:
            archive(spark, broker, lake, batch_rows=200)
        client = f"meter-{number}"
        killed = spark_retain(broker, lakes[0], client, fault)
        _out, complaints = killed.communicate(timeout=DEADLINE_S)
        assert killed.returncode == -9, complaints
        for lake in lakes:
            check_erased(spark, broker, lake, client, *erased)
        erased.append(client)


def test_a_kill_while_tasks_write_files_anew_is_made_good_by_the_next_run(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Tasks of Spark may go on for a while when the command is dead."""
    fill(broker, 0)
    lake = tmp_path / "lake"
    erased: list[str] = []
    archive(spark, broker, lake, batch_rows=20)
    for number in range(min(KILLS, 10)):  # there are ten clients
        client = f"meter-{number}"
        known = set(lake.glob("day=*/**/*.parquet"))
        process = spark_retain(broker, lake, client)
        while process.poll() is None and set(lake.glob("day=*/**/*.parquet")) <= known:
            threading.Event().wait(0.005)
        process.kill()
        _out, complaints = process.communicate()
        assert process.returncode in (0, -9), complaints
        check_erased(spark, broker, lake, client, *erased)
        erased.append(client)
