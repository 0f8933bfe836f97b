"""Spark over the history of a broker by Arrow Flight: tokens, TLS, leases, executors of their own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.files.token_file import add_token
from holdfast.pipeline import history
from holdfast.pipeline.lake.lake import Lake
from holdfast.storage.rocks.log.leases import read_leases
from tests.spark.lakes import payloads, sent
from tests.spark.publishers import Broker, Sent
from tests.unit.server.certificates import Authority

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("cluster_program.py")


class Guarded(Broker):
    """Wants a token, and speaks TLS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, served=True)
        files = Authority(folder).server_files("broker")
        self.token = add_token(folder / "tokens", "spark")
        self._settings += f'''
host = "127.0.0.1"
token_file = "{folder / "tokens"}"
certificate = "{files["certificate"]}"
key = "{files["key"]}"
'''
        self.ca = folder / "authority.pem"
        self.token_file = folder / "token"
        self.token_file.write_text(self.token, encoding="utf-8")

    @property
    def words(self) -> list[str]:
        """The options of a command."""
        endpoint = self.endpoint.replace("grpc+tls", "grpcs")
        return ["--endpoint", endpoint, "--token-file", str(self.token_file), "--ca", str(self.ca)]

    @property
    def endpoint(self) -> str:
        return self.where["endpoint"].replace("grpc://127.0.0.1", "grpc+tls://localhost")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with Guarded(tmp_path_factory.mktemp("broker")) as broker:
        broker.publish(Sent(f"plant/{number % 7}", b"%d" % number) for number in range(50))
        yield broker


def test_a_token_over_tls_opens_and_is_never_shown(
    spark: SparkSession, guarded: Guarded, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = history(spark, "plant/#", endpoint=guarded.endpoint, token=guarded.token, ca=guarded.ca)

    assert sorted(bytes(row.payload) for row in frame.collect()) == sorted(sent.payload for sent in guarded.sent)
    frame.explain(extended=True)
    shown = capfd.readouterr()
    assert "holdfast" in shown.out
    assert guarded.token not in shown.out + shown.err
    assert guarded.token not in "".join(guarded.process.lines)
    assert guarded.token not in str(frame._jdf.queryExecution())


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["spark", *words])


def test_the_archive_of_a_guarded_endpoint_is_whole_and_keeps_its_lease(
    spark: SparkSession, guarded: Guarded, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"

    done = run("archive", *guarded.words, "--lake", str(lake), "--json")

    assert done.exit_code == 0, done.output
    assert payloads(lake) == sent(guarded.sent)
    [lease] = [lease for lease in read_leases(guarded.data) if lease.name == "archive-main"]
    assert lease.positions == {shard: done.position_us for shard, done in Lake.open(lake).offsets.items()}
    status = run("archive", *guarded.words, "--lake", str(lake), "--status", "--json")
    assert {row["behind"] for row in json.loads(status.stdout)["shards"]} == {0}, status.output


def test_sql_learn_and_replay_open_a_guarded_endpoint(spark: SparkSession, guarded: Guarded) -> None:
    counted = run(
        "sql", *guarded.words, "--format", "csv", "SELECT (SELECT count(*) FROM sessions) = 0, count(*) FROM history"
    )
    assert (counted.exit_code, counted.stdout.splitlines()[1:]) == (0, ["true,50"]), counted.output
    learnt = run("learn", *guarded.words, "--json")
    assert (learnt.exit_code, json.loads(learnt.stdout)["messages"]) == (0, 50), learnt.output
    # To find that out it reads the table of sessions.
    itself = run("replay", *guarded.words, "--to", f"mqtt://127.0.0.1:{guarded.process.ports['tcp']}", "--no-prefix")
    assert "is the broker whose history is replayed" in itself.stderr


@pytest.mark.parametrize("token", ["hft_wrong-token", None])
def test_without_the_right_token_nothing_is_started(spark: SparkSession, guarded: Guarded, token: str | None) -> None:
    with pytest.raises(AnalysisException) as caught:
        history(spark, endpoint=guarded.endpoint, token=token, ca=guarded.ca)

    assert "option token: " in str(caught.value)
    assert "hft_wrong-token" not in str(caught.value)


@pytest.mark.parametrize("served", [False, True])
def test_the_lease_of_a_stream_is_where_its_commits_are(spark: SparkSession, tmp_path: Path, served: bool) -> None:
    with Broker(tmp_path, served=served) as broker:
        broker.publish(Sent("plant/1", b"%d" % number) for number in range(40))
        stream = spark.readStream.format("holdfast").options(**broker.where, lease="lake", maxRowsPerTrigger="10")
        sink = stream.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        sink.trigger(availableNow=True).start().awaitTermination()

        [lease] = read_leases(broker.data)
        planned = [json.loads(_last_line(tmp_path / "checkpoint" / "offsets" / str(batch))) for batch in range(4)]
        assert lease.name == "lake"
        # Spark commits a batch when it plans the next one.
        assert lease.positions[0] in (planned[2]["0"][0], planned[3]["0"][0])


def _last_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[-1]


def test_executors_of_a_cluster_read_by_flight(tmp_path: Path) -> None:
    with Broker(tmp_path, served=True) as broker:
        sent = broker.publish(Sent(f"plant/{number % 7}", b"%d" % number) for number in range(200))
        command = [sys.executable, str(PROGRAM), broker.where["endpoint"]]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280)

    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["rows"] == found["streamed"] == sorted(message.payload.decode() for message in sent)
    assert found["filtered"] == 29
