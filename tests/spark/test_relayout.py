"""Old generations are written anew, and nobody who reads them notices."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.relayout.job import run_relayout
from holdfast.pipeline.relayout.plan import RelayoutJob
from holdfast.storage.rocks.checking.verification import verify_folder
from tests.spark.lakes import archive
from tests.spark.publishers import Broker, Sent
from tests.spark.test_load import Killed, killed_at, streamed
from tests.unit.pipeline.local_load import stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def messages(first: int, count: int) -> list[Sent]:
    return [
        Sent(f"plant/{i % 37}/{'temp' if i % 2 else 'flow'}", b"%d" % i, client_id=f"d{i % 5}")
        for i in range(first, first + count)
    ]


def layouts(data: Path) -> list[str]:
    with HistoryReader.open(data) as reader:
        return [record.layout for record in reader.generations("default")]


def filled(folder: Path, *more: str) -> Broker:
    """Generations of several layouts; the last one is written to when the broker runs."""
    for number, layout in enumerate(["timeline", "bitmask", *more]):
        with Broker(folder, f'shards = 2\nlayout = "{layout}"\n') as broker:
            broker.publish(messages(number * 400, 400))
    return Broker(folder, 'shards = 2\nlayout = "learned"\n')


def test_a_running_broker_gets_its_generations_in_another_layout(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, Q9: positions, serials and order stay; a run that is killed, between generations or in one, is run again."""
    with filled(tmp_path) as broker:
        broker.publish(messages(800, 100))
        before = stored(broker.data)
        stream = streamed(spark, broker, tmp_path / "stream").count()
        killed_at(
            "relayout-tables",
            "spark",
            "relayout",
            "--data",
            str(broker.data),
            "--generation",
            "1",
            "--master",
            "local[2]",
        )
        assert layouts(broker.data) == ["timeline", "bitmask", "learned"]
        assert stored(broker.data) == before

        def die(name: str) -> None:
            if name == "relayout-shipped":
                raise Killed

        monkeypatch.setattr("holdfast.pipeline.relayout.job.fault", die)
        with pytest.raises(Killed):
            run_relayout(spark, RelayoutJob(broker.data, numbers=(2,)))
        monkeypatch.undo()
        done = CliRunner().invoke(app, ["spark", "relayout", "--data", str(broker.data), "--json"])

        assert done.exit_code == 0, done.output
        assert layouts(broker.data) == ["learned"] * 3
        assert stored(broker.data) == before
        broker.publish(messages(900, 50))
        after = streamed(spark, broker, tmp_path / "stream")
        assert after.count() == stream + 50
        assert after.select("shard", "serial").distinct().count() == stream + 50
        told = json.loads(done.stdout)
        assert [one["layout"] for one in told["generations"]][-1:] == ["learned"]
    # Once more, with the broker stopped: nothing to do, and the patterns are as they would be learnt.
    nothing = CliRunner().invoke(app, ["spark", "relayout", "--data", str(broker.data), "--learn"])
    assert "nothing to do: 2 have the patterns already" in nothing.output
    assert verify_folder(broker.data).is_sound


def test_days_come_back_from_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    """As they were, byte by byte; the archive does not take them for new, and neither does a stream."""
    broker = filled(tmp_path)
    lake = tmp_path / "lake"
    with broker:
        before = stored(broker.data)
        archive(spark, broker, lake)
    _drop_sealed(broker.data, 2)
    left = stored(broker.data)
    assert len(left) < len(before)

    day = datetime.fromtimestamp(before[0][0] / 1_000_000, UTC).date().isoformat()
    done = CliRunner().invoke(
        app, ["spark", "relayout", "--data", str(broker.data), "--from-lake", str(lake), "--day", day, "--json"]
    )

    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    assert [one["generation"] for one in told["generations"]] == [1, 2]
    assert stored(broker.data) == before
    with broker:
        broker.publish(messages(2_000, 10))
        assert archive(spark, broker, lake).rows == 10
    assert verify_folder(broker.data).is_sound


def _drop_sealed(data: Path, count: int) -> None:
    """What retention does when their time has come."""
    from tests.unit.pipeline.retention_drop import drop_oldest

    drop_oldest(data, count)
