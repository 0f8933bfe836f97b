"""`holdfast spark replay` between two real brokers: what arrives, in which order, when it was due; kill -9, and on."""

import json
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.replay.state import read_note
from tests.history.processes import until
from tests.spark.lakes import archive
from tests.spark.publishers import Broker, Sent
from tests.spark.written_log import WrittenBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = 2_400
CONNECTIONS = 2
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "replay")


def message(number: int) -> Sent:
    """Six publishers, each on topics of its own and on those of others."""
    return Sent(
        f"plant/{number % 7}/{('temp', 'flow')[number % 2]}",
        b"%d" % number,
        client_id=f"device-{number // 60 % 6}",
        qos=1 + number % 2,
        retain=number % 50 == 0,
        content_type="text/plain" if number % 3 else None,
        user_properties=(("unit", "C"),) if number % 5 else (),
        expiry_s=3600 if number % 4 == 0 else None,
    )


class Source(Broker):
    """Its first half is in a lake, and all of it in its log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "shards = 2\n", served=True)
        self.lake = folder / "lake"

    def fill(self, spark: SparkSession) -> None:
        self.publish(message(number) for number in range(MESSAGES // 2))
        archive(spark, self, self.lake)
        self.publish(message(number) for number in range(MESSAGES // 2, MESSAGES))
        with HistoryReader.open(self.data) as reader:
            columns = ("offset", "shard", "topic", "client_id", "payload", "user_properties", "properties")
            found = [
                row
                for part in reader.parts()
                for batch in reader.batches(part, (), columns)
                for row in batch.to_pylist()
            ]
        #: As they lie in the log, in the order of time.
        self.rows: list[dict[str, Any]] = sorted(found, key=lambda row: (row["offset"], row["shard"]))


@dataclass(frozen=True)
class Copy:
    """A message that arrived, taken apart."""

    topic: str
    payload: bytes
    #: Of the original.
    user_properties: tuple[tuple[str, str], ...]
    told: dict[str, str]
    content_type: str | None
    qos: int
    retain: bool
    expires: bool

    @property
    def offset_us(self) -> int:
        return int(self.told["ts"])


class Target(WrittenBroker):
    """Where copies arrive, from somebody who knows a password."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "secret"
        self.secret.write_text("correct horse")
        words = ["user", "add", "ann", "--file", str(folder / "passwords"), "--password-stdin"]
        added = CliRunner().invoke(app, words, input=self.secret.read_text())
        assert added.exit_code == 0, added.output
        super().__init__(folder, 'shards = 2\n[security]\npassword_file = "passwords"\n')

    def copies(self, prefix: str) -> list[Copy]:
        """Those below a prefix, or not below any; in the order of arrival."""
        names = ("topic", "payload", "user_properties", "content_type", "qos", "retain", "expires_at")
        return [self._copy(prefix, *row) for row in self.rows(*names) if str(row[0]).startswith(prefix or "plant/")]

    @staticmethod
    def _copy(
        prefix: str,
        topic: str,
        payload: bytes,
        pairs: list[tuple[str, str]],
        kind: str,
        qos: int,
        retain: bool,
        end: Any,
    ) -> Copy:
        own = [name for name, _text in pairs].index("ts")
        told = dict(pairs[own:])
        return Copy(topic.removeprefix(prefix), payload, tuple(pairs[:own]), told, kind, qos, retain, end is not None)


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with Source(tmp_path_factory.mktemp("source")) as running:
        running.fill(spark)
        yield running


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    running = Target(tmp_path_factory.mktemp("target"))
    yield running
    running.stop()


def to(target: Target) -> list[str]:
    return ["--into", target.url, "-u", "ann", "--password-file", str(target.secret)]


def replay(target: Target, *words: str) -> Result:
    """The command, on the Spark that runs already."""
    return CliRunner().invoke(app, ["spark", "replay", *to(target), "--json", *words])


def check(copies: list[Copy], rows: list[dict[str, Any]]) -> None:
    """Each of the rows arrived once, and those of one publisher and topic in their order."""
    where = [(f"{row['shard']}:{row['offset']}", row["client_id"], row["topic"], row["payload"]) for row in rows]
    found = [(copy.told["offset"], copy.told["client-id"], copy.topic, copy.payload) for copy in copies]
    assert Counter(found) == Counter(where)
    streams: dict[tuple[str, str], list[int]] = defaultdict(list)
    for copy in copies:
        streams[copy.told["client-id"], copy.topic].append(copy.offset_us)
    assert all(offsets == sorted(offsets) for offsets in streams.values())


def test_hot_and_cold_arrive_once_in_order_with_time_and_origin(
    spark: SparkSession, source: Source, target: Target
) -> None:
    done = replay(target, "--data", str(source.data), "--lake", str(source.lake), "--batch", "1000")

    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["messages"], summary["sent"], summary["before"]) == (MESSAGES, MESSAGES, 0)
    assert summary["connections"] == CONNECTIONS
    copies = target.copies("replayed/")
    check(copies, source.rows)
    by_number = {int(copy.payload): copy for copy in copies}
    for number, copy in by_number.items():
        sent = message(number)
        assert (copy.content_type, copy.user_properties) == (sent.content_type, sent.user_properties)
        assert (copy.qos, copy.retain, copy.expires) == (1, False, sent.expiry_s is not None)
        assert set(copy.told) == {"ts", "offset", "client-id", "publish-number"}


@pytest.mark.parametrize("kind", ["lake", "endpoint"])
def test_a_lake_alone_or_an_endpoint_is_replayed_by_filter_and_time(
    spark: SparkSession, source: Source, target: Target, kind: str
) -> None:
    since_us, until_us = source.rows[300]["offset"], source.rows[1_500]["offset"]
    where = ["--lake", str(source.lake)] if kind == "lake" else ["--endpoint", source.where["endpoint"]]
    span = ["--topic", "plant/+/temp", "--since", str(since_us), "--until", str(until_us)]

    done = replay(target, *where, *span, "--prefix", kind, "--qos", "2")

    assert done.exit_code == 0, done.output
    kept = source.rows[: MESSAGES // 2] if kind == "lake" else source.rows
    right = [row for row in kept if since_us <= row["offset"] < until_us and row["topic"].endswith("temp")]
    copies = target.copies(f"{kind}/")
    check(copies, right)
    assert json.loads(done.stdout)["messages"] == len(right) > 100
    assert {copy.qos for copy in copies} == {2}


def test_the_schedule_keeps_all_distances_over_all_connections_and_rounds(
    spark: SparkSession, source: Source, target: Target
) -> None:
    """Whether a clock was met is not looked at: when each message was due is what it carries."""
    done = replay(target, "--data", str(source.data), "--speed", "2.5", "--prefix", "timed", "--batch", "1500")

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["late_s"] >= 0
    copies = target.copies("timed/")
    check(copies, source.rows)
    first_us = source.rows[0]["offset"]
    [start_us] = {int(copy.told["due"]) - (copy.offset_us - first_us) * 2 // 5 for copy in copies}
    assert start_us > source.rows[-1]["offset"]


def test_a_killed_replay_goes_on_and_nothing_arrives_twice(
    spark: SparkSession, source: Source, target: Target, tmp_path: Path
) -> None:
    """kill -9 of the driver in the middle of a round; the rest is replayed by another process."""
    named = ["--data", str(source.data), "--prefix", "killed", "--name", "tuesday", "--state", str(tmp_path)]
    # Slow enough to be killed in the middle.
    speed = (source.rows[-1]["offset"] - source.rows[0]["offset"]) / 20e6
    words = [*named, *to(target), "--speed", f"{speed:.6f}", "--master", "local[2]"]
    log = tmp_path / "log"
    with log.open("wb") as said:
        process = subprocess.Popen([*COMMAND, *words], stdout=said, stderr=said)
        try:
            noted = tmp_path / "tuesday"
            until(lambda: process.poll() is not None or _noted(noted) > 200, "some are replayed", 120)
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert 200 < _noted(noted) < MESSAGES

    other = replay(target, *named[:-4], "--prefix", "other", *named[-4:])
    assert other.exit_code == 2
    assert "was begun with --prefix killed/, and now it is other/" in other.stderr
    done = replay(target, *named)
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["messages"] == MESSAGES
    assert 200 < summary["before"] == MESSAGES - summary["sent"]
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    begun = next(line for line in told if line["step"] == "publishing messages")
    assert begun["rows"] == summary["before"]
    assert begun["share"] == round(summary["before"] / MESSAGES, 4)
    check(target.copies("killed/"), source.rows)

    again = replay(target, *named)
    assert (again.exit_code, json.loads(again.stdout)["sent"]) == (0, 0)
    assert len(target.copies("killed/")) == MESSAGES


def _noted(folder: Path) -> int:
    return sum(read_note(folder, connection).messages for connection in range(CONNECTIONS))


def test_more_connections_than_tasks_cannot_keep_a_schedule(
    spark: SparkSession, source: Source, target: Target
) -> None:
    done = replay(target, "--data", str(source.data), "--speed", "1", "--connections", "3", "--topic", "nothing")

    assert done.exit_code == 2
    assert "all 3 connections have to run at the same time, and Spark runs 2 tasks" in done.stderr


def test_what_the_broker_refuses_is_told_with_topic_and_reason(
    spark: SparkSession, source: Source, target: Target
) -> None:
    done = replay(target, "--data", str(source.data), "--prefix", "$SYS/copies")

    assert done.exit_code == 1
    assert "the broker" in done.stderr
    assert "Not authorized" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_is_not_replayed_into_itself_by_mistake(
    spark: SparkSession, source: Source, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"mqtt://localhost:{source.process.ports['tcp']}"
    with monkeypatch.context() as patched:
        patched.setattr("holdfast.pipeline.replay.job.run_replay", lambda *_given: pytest.fail("it began"))
        for where in (["--data", str(source.data)], ["--endpoint", source.where["endpoint"]]):
            refused = CliRunner().invoke(app, ["spark", "replay", "--into", url, "--no-prefix", *where])
            assert refused.exit_code == 2
            assert "is the broker whose history is replayed" in refused.stderr
        gone = CliRunner().invoke(app, ["spark", "replay", "--into", "mqtt://127.0.0.1:1", *where])
        assert gone.exit_code == 1
        assert "cannot connect to 127.0.0.1:1: Connection refused" in gone.stderr
        nobody = CliRunner().invoke(app, ["spark", "replay", "--into", target.url, "-u", "ann", *where])
        assert nobody.exit_code == 1
        assert "Bad User Name or Password" in nobody.stderr

    # Another broker may be told to take topics as they are.
    one = ["--topic", "plant/0/temp", "--until", str(source.rows[100]["offset"])]
    done = replay(target, "--data", str(source.data), "--no-prefix", *one)
    assert done.exit_code == 0, done.output
    right = [row for row in source.rows[:100] if row["topic"] == "plant/0/temp"]
    check(target.copies(""), right)
