"""Queues go from one server to another by the tasks of Spark, whatever dies meanwhile."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import holdfast
from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisServer
from holdfast.cli.main import app
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.pipeline.spark.fault_points import VARIABLE
from holdfast.storage.redis.options import RedisOptions
from tests.servers.backends import Queues, held, on
from tests.servers.conftest import postgres, redis, redis_options
from tests.servers.entries import append, entries
from tests.servers.test_tbmq_sessions import MESSAGES, check_device, serve, tbmq
from tests.spark.progress_lines import check_progress

__all__ = ["postgres", "redis", "redis_options", "tbmq"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUEUES = 200
#: A queue of more than a page, at whose second page a task can die.
LONG = "long"


async def fill(store: QueueStore) -> None:
    for number in range(QUEUES):
        client_id = f"device-{number}/ü%"
        first = 10_000 + 10 * number
        await append(store, client_id, entries(*range(first, first + 1 + number % 5)))
        await store.acknowledge([(client_id, [1, 4])])
        await store.release(client_id, [2])
    await append(store, LONG, entries(*range(1, 701)))
    await store.acknowledge([(LONG, [1, 2, 3, 400, 700])])


def migrate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark", "migrate", *arguments])


async def has_grown(store: QueueStore, than: int, process: "subprocess.Popen[bytes]") -> None:
    while len([client_id async for client_id in store.clients()]) <= than:
        assert process.poll() is None, "it ended by itself"


def test_queues_of_redis_are_in_postgres_though_a_task_died_and_then_the_driver(
    spark: SparkSession, redis: RedisServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    """Q9: same serials, each message once; the old home stays as it was, and a foreign queue in the new one too."""
    source, target = f"{redis.url}#migrate:", f"{postgres.url}#migrate"
    on(source, fill)
    wanted: Queues = on(source, held)
    given = ["--from", source, "--to", target, "--json"]

    tree = str(Path(holdfast.__file__).resolve().parents[1])
    environment = {**os.environ, VARIABLE: "migrate-halfway", "PYTHONPATH": tree, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "migrate", *given]
    command += ["--master", "local[2]"]
    died = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    begun: Queues = on(target, held)

    assert died.returncode == 1, died.stderr
    assert "holdfast: a task of Spark died" in died.stderr
    assert "the same command goes on" in died.stderr
    assert died.stdout == ""
    assert 0 < len(begun[LONG][1]) < len(wanted[LONG][1])

    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": tree}, start_new_session=True) as process:
        try:
            on(target, lambda store: has_grown(store, len(begun), process))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert len(on(target, held)) < len(wanted)

    done = migrate(*given)

    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)
    copied = check_progress(done.stderr, "migrate")[f"copying {QUEUES + 1:,} queues"]
    assert copied["rows"] == row["messages"]
    assert (row["queues"], row["failed"]) == (QUEUES + 1, 0)
    assert row["messages"] == sum(len(messages) for _last, messages in wanted.values())
    assert on(target, held) == on(source, held) == wanted

    foreign = f"{postgres.url}#migrate_foreign"
    on(foreign, lambda store: append(store, LONG, entries(77)))
    refused = migrate("--from", source, "--to", foreign, "--clients", "[!d]*")
    assert refused.exit_code == 1
    assert "left out: 'long': the target has a queue of 'long' already" in refused.stderr


def test_clients_of_a_tbmq_receive_everything_that_spark_brought(
    spark: SparkSession, tbmq: str, redis_options: RedisOptions, tmp_path: Path
) -> None:
    """P3, T8: also when a queue was in the way at first. Their sessions are made, and packets owed go out."""
    target = f"{redis_options.urls[0]}#{redis_options.prefix}"
    given = ["--from", f"tbmq+{tbmq}", "--to", target, "--data", str(tmp_path / "data")]
    given += ["--resume", str(tmp_path / "resume.json"), "--json"]
    on(target, lambda store: append(store, "other", entries(1)))

    first = migrate(*given)
    assert first.exit_code == 1, first.output
    row = json.loads(first.stdout)
    assert (row["queues"], row["sessions"], row["failed"]) == (1, 1, 1)
    assert (tmp_path / "resume.json").exists()
    on(target, lambda store: store.acknowledge([("other", [1])]))
    again = migrate(*given)

    assert again.exit_code == 0, again.output
    row = json.loads(again.stdout)
    assert (row["queues"], row["messages"], row["sessions"], row["failed"]) == (2, MESSAGES + 2, 1, 0)
    assert not (tmp_path / "resume.json").exists()
    broker = serve(tmp_path, redis_options)
    try:
        check_device(broker.ports["tcp"], MQTTProtocolVersion.MQTTv5)
    finally:
        broker.stop()
