"""Spark Connect: a client without Java reads, streams and asks in SQL, by endpoint, from a server of its package."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.rocks.log.leases import read_leases
from tests.history.processes import until
from tests.spark.publishers import Sent
from tests.spark.standalone import spark_environment, spark_program, without_calls
from tests.spark.test_endpoint import Guarded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_STARTED = re.compile(r"Spark Connect server started at:? \S+:(\d+)")
_PATIENCE_S = 300.0
#: Of a server, which clients cannot set.
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.eventLog.compress": "false",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    log = tmp_path / "server.log"
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (tmp_path / "events").as_uri()}
    settings = [word for name, value in (_SETTINGS | events).items() for word in ("--conf", f"{name}={value}")]
    submitted = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    command = spark_program("deploy.SparkSubmit", ["--master", "local[2]", *settings, *submitted], memory="1g")
    (tmp_path / "events").mkdir()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, env=spark_environment(tmp_path / "local"), cwd=tmp_path
        ) as process,
    ):
        try:
            until(
                lambda: process.poll() is not None or _STARTED.search(log.read_text(encoding="utf-8")),
                "the server listens",
                _PATIENCE_S,
            )
            found = _STARTED.search(log.read_text(encoding="utf-8"))
            assert found is not None, log.read_text(encoding="utf-8")[-4000:]
            yield f"sc://127.0.0.1:{found[1]}"
        finally:
            process.terminate()


def test_a_client_of_spark_connect_reads_streams_and_asks_in_sql(server: str, tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with Guarded(tmp_path / "broker") as broker:
        published = broker.publish(Sent(f"plant/{number % 7}", b"%d" % number) for number in range(100))
        environment = spark_environment(tmp_path / "local")
        for name in ("JAVA_HOME", "SPARK_HOME"):
            del environment[name]
        given = [server, broker.endpoint, str(broker.token_file), str(broker.ca), str(tmp_path / "stream")]
        shown = subprocess.run(
            [sys.executable, "-m", "tests.spark.connect_program", *given],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert shown.returncode == 0, without_calls(shown.stderr)
        leases = [lease.name for lease in read_leases(broker.data)]
        endpoint = broker.endpoint

    found = json.loads(shown.stdout)
    everything = sorted(message.payload.decode() for message in published)
    assert found["rows"] == found["streamed"] == everything
    assert found["counts"] == Counter(message.topic for message in published)
    assert found["filtered"] == found["counts"]["plant/3"]
    assert leases == ["connect"]
    assert (found["sessions"], found["again"], found["java"]) == (0, True, False)
    assert (found["zone"], found["partitions"]) == ("UTC", "3")
    wanted = ("does not go with remote", "--conf", "right would be sc://")
    assert [right in told for right, told in zip(wanted, found["refusals"], strict=True)] == [True, True, True]
    assert broker.token not in (tmp_path / "server.log").read_text(encoding="utf-8")
    files = (tmp_path / "events").rglob("events_*")
    events = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    plans = [event["statementText"] for event in events if event["Event"].endswith("ConnectOperationStarted")]
    assert [plan for plan in plans if endpoint in plan and "token" in plan], "the plans of reads are there"
    assert [event["Event"] for event in events if broker.token in json.dumps(event)] == []
