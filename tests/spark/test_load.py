"""History is loaded: into a broker that works meanwhile, by a job that is killed, from every kind of file."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import holdfast
from holdfast.cli.main import app
from holdfast.history.arrow.file_columns import FileFormat
from holdfast.pipeline import Files, history, load
from holdfast.pipeline.spark.fault_points import VARIABLE
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.shipments.shipment import incoming
from tests.docs.test_examples import ROOT, examples_in
from tests.spark.publishers import Broker, Sent
from tests.spark.stream_kills import Publisher
from tests.unit.pipeline.local_load import stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OLD_S = 1_700_000_000
TWO_ZONES = 'shards = 2\n[zones.press]\nfilter = "press/#"\n'


def lines(count: int) -> list[dict[str, Any]]:
    """As `mosquitto_sub -F %j` writes them: three a second, on many topics."""
    return [
        {
            "tst": datetime.fromtimestamp(OLD_S + i // 3, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+0000"),
            "topic": f"{'press' if i % 5 == 0 else 'plant'}/{i % 97}/temp",
            "qos": i % 3,
            "retain": 0,
            "payload": f"old {i}",
        }
        for i in range(count)
    ]


def written(path: Path, count: int) -> list[bytes]:
    """The file, and the payloads in it."""
    rows = lines(count)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return sorted(row["payload"].encode() for row in rows)


def payloads(data: Path, zone: str | None = None) -> list[bytes]:
    return sorted(payload for _at, _serial, _topic, payload in stored(data, zone))


def streamed(spark: SparkSession, broker: Broker, folder: Path) -> DataFrame:
    """What a stream has read by now, once each."""
    rows = (
        spark.readStream.format("holdfast").options(path=str(broker.data)).load().select("shard", "serial", "payload")
    )
    query = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()
    return spark.read.parquet(str(folder / "rows"))


def test_a_broker_under_load_takes_in_history(spark: SparkSession, tmp_path: Path) -> None:
    """L4, Q9: all of it once, with its times, beside what is published; sessions and streams see what they should."""
    with Broker(tmp_path, TWO_ZONES) as broker:
        broker.publish(Sent(f"plant/{i}/temp", b"new %d" % i, client_id=f"d{i % 3}") for i in range(60))
        assert streamed(spark, broker, tmp_path / "stream").count() == 60
        publisher = Publisher("busy", broker.process.ports["tcp"], seed=1, pace_s=0.01)
        publisher.start()
        old = written(tmp_path / "old.jsonl", 6_000)

        command = ["spark", "load", str(tmp_path / "old.jsonl"), "--data", str(broker.data), "--json"]
        done = CliRunner().invoke(app, command)

        publisher.finish()
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        assert (told["messages"], told["taken_by"], told["verified"]) == (6_000, "the broker", True)
        assert sorted(one["zone"] for one in told["generations"]) == ["default~1", "press~1"]
        new = sorted([*(sent.payload for sent in broker.sent)])
        taken = [payload for payload in payloads(broker.data) if not payload.startswith(b"busy")]
        assert taken == sorted(old + new)
        at = {payload: at for at, _serial, _topic, payload in stored(broker.data, "press")}
        assert at[b"old 300"] == (OLD_S + 100) * 1_000_000
        # The same rows again are the same load.
        again = json.loads(CliRunner().invoke(app, command).stdout)
        assert (again["name"], again["taken_by"], again["messages"]) == (told["name"], "", 6_000)
        # By time, and in the order of the file where the times are equal; a stream gets each row once.
        read = history(spark, "press/0/temp", path=str(broker.data)).orderBy("ts").collect()
        assert [bytes(row.payload) for row in read][:3] == [b"old 0", b"old 485", b"old 970"]
        seen = streamed(spark, broker, tmp_path / "stream")
        assert seen.where("payload LIKE 'old %'").count() == 6_000
        assert seen.select("shard", "serial").distinct().count() == seen.count()
    assert verify_folder(broker.data).is_sound


def killed_at(fault: str, *arguments: str) -> None:
    """Run `holdfast …` in a process that dies there by kill -9."""
    tree = str(Path(holdfast.__file__).resolve().parents[1])
    environment = {**os.environ, VARIABLE: fault, "PYTHONPATH": tree, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


class Killed(BaseException):
    """In the place of kill -9, where a process of its own would cost a Java."""


def test_a_load_that_is_killed_is_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q9: at any point; never twice, never half. The broker is not there."""
    with Broker(tmp_path) as broker:
        broker.publish([Sent("plant/1/temp", b"new")])
    old = written(tmp_path / "old.jsonl", 3_000)
    files = Files((tmp_path / "old.jsonl",), FileFormat.JSONL)
    killed_at(
        "load-tables", "spark", "load", str(tmp_path / "old.jsonl"), "--data", str(broker.data), "--master", "local[2]"
    )
    assert payloads(broker.data) == [b"new"]
    assert any(incoming(broker.data).rglob("*.sst"))
    for fault in ("load-shipped", "load-taken"):

        def die(name: str, at: str = fault) -> None:
            if name == at:
                raise Killed

        monkeypatch.setattr("holdfast.pipeline.bulk_load.job.fault", die)
        with pytest.raises(Killed):
            load(spark, files, broker.data)
        monkeypatch.undo()
        assert payloads(broker.data) == ([b"new"] if fault == "load-shipped" else sorted([*old, b"new"]))

    assert load(spark, files, broker.data).taken_by == ""
    assert payloads(broker.data) == sorted([*old, b"new"])
    assert not any(path.is_dir() for path in incoming(broker.data).iterdir())
    assert verify_folder(broker.data).is_sound


def test_an_export_is_loaded_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """Every column of every format, into a broker that has times of its own between them."""
    with Broker(tmp_path) as broker:
        broker.publish(
            Sent(
                f"plant/{i}/temp",
                b"\xff\x00" if i == 3 else f'{i}, "quoted"\nünd'.encode(),
                client_id=f"d{i % 3}",
                retain=i % 2 == 0,
                content_type="text/plain" if i % 2 else None,
                response_topic="answers" if i % 3 == 0 else None,
                correlation_data=b"\x00\x01" if i % 5 == 0 else None,
                user_properties=(("a", "1"), ("a", "2")) if i % 4 == 0 else (),
                expiry_s=3600 if i % 6 == 0 else None,
            )
            for i in range(24)
        )
    columns = ["topic", "client_id", "qos", "retain", "payload", "properties", "received_at", "expires_at", "offset"]
    right = sorted(map(str, history(spark, path=str(broker.data), columns=columns).collect()))
    (tmp_path / "other").mkdir()
    with Broker(tmp_path / "other") as other:
        other.publish([Sent("plant/1/temp", b"new")])
    for kind in FileFormat:
        file = tmp_path / f"all.{kind}"
        made = CliRunner().invoke(app, ["export", "#", "-o", str(file), "--data", str(broker.data)])
        assert made.exit_code == 0, made.output
        loaded = load(spark, Files((file,), kind), other.data, name=f"as-{kind}")
        (record,) = loaded.generations
        rows = history(spark, path=str(other.data), columns=[*columns, "shard"]).where(f"shard = {record.shards[0]}")
        assert sorted(map(str, rows.drop("shard").collect())) == right, kind


def test_rows_of_a_frame_are_loaded_by_the_names_they_have(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And so is the example of the guide."""
    with Broker(tmp_path):
        pass
    data = tmp_path / "data"
    frame = spark.createDataFrame(
        [(OLD_S * 1_000 + i, f"a/{i % 3}", f"{i}") for i in range(100)], "at_ms long, name string, text string"
    )

    loaded = load(spark, frame, data, columns={"ts": "at_ms", "topic": "name", "payload": "text"}, layout="timeline")

    assert loaded.messages == 100
    assert [(at, payload) for at, _serial, _topic, payload in stored(data)][:2] == [
        (OLD_S * 1_000_000, b"0"),
        (OLD_S * 1_000_000 + 1_000, b"1"),
    ]
    (example,) = [one for one in examples_in(ROOT / "docs/guide/spark-load.md") if one.language == "python"]
    exec(example.text.replace("/var/lib/holdfast", str(data)), {})
    assert capsys.readouterr().out == "1 loaded\n"
