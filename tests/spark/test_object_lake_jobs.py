"""Jobs on Spark with a lake in a store of objects: each takes its address, and none shows its credentials."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.pipeline import history
from holdfast.pipeline.lake import writer
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.lake.store_options import SETTINGS
from tests.spark.lakes import archive, check_whole, payloads, sent
from tests.spark.publishers import Broker, Sent
from tests.spark.s3_server import BUCKET, KEY, S3, SECRET, Faults, s3_server
from tests.unit.pipeline.retention_drop import drop_oldest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark")
DEADLINE_S = 300.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def s3(server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(writer, "BEAT_S", 0.1)
    yield server
    server.faults = Faults()


@pytest.fixture
def lake(s3: S3, tmp_path: Path) -> str:
    return f"s3://{BUCKET}/{tmp_path.name}/lake"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "shards = 2\ngeneration_bytes = 1048576\n") as running:
        yield running


def numbered(first: int, count: int, size: int = 0) -> list[Sent]:
    return [
        Sent(
            f"plant/{number % 17}/{'temp' if number % 2 else 'flow'}",
            b'{"number": %d}' % number + b" " * size,
            client_id=f"device-{number // 50 % 4}",
            user_properties=(("unit", "C"),) if number % 9 == 0 else (),
        )
        for number in range(first, first + count)
    ]


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["spark", *words, "--json"])
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_hot_and_cold_are_one_table_and_its_plan_shows_no_credential(
    spark: SparkSession, broker: Broker, s3: S3, lake: str
) -> None:
    s3.faults = Faults(5, refused=0.05, unanswered=0.05)
    broker.publish(numbered(0, 200))
    archive(spark, broker, lake, batch_rows=60)
    broker.publish(numbered(200, 80))
    table = history(spark, path=broker.data, lake=lake)

    assert sorted(bytes(row.payload) for row in table.select("payload").collect()) == sent(broker.sent)
    check_whole(lake)
    hot = history(spark, path=broker.data)
    columns = [name for name in hot.columns if name != "user_properties"]
    assert table.dtypes == hot.dtypes
    assert table.select(*columns).exceptAll(hot.select(*columns)).count() == 0
    some = history(spark, "plant/3/+", path=broker.data, lake=lake, columns=["topic", "json"])
    assert some.where("topic = 'plant/3/temp'").count() == sum(one.topic == "plant/3/temp" for one in broker.sent)
    plan = table._jdf.queryExecution().toString() + some._jdf.queryExecution().debug().codegenToSeq().toString()
    assert "MapInArrow" in plan
    assert SECRET not in plan
    assert KEY not in plan


def test_the_jobs_take_the_address_of_a_store(spark: SparkSession, broker: Broker, lake: str, tmp_path: Path) -> None:
    data = ["--data", str(broker.data)]
    broker.publish(numbered(0, 300))
    assert archive(spark, broker, lake).rows == 300
    broker.publish(numbered(300, 50))

    assert run("archive", *data, "--lake", lake, "--status")["rows"] == 300
    assert run("report", *data, "--lake", lake, "-o", str(tmp_path / "page.html"))["messages"] == 350
    assert run("retain", "--lake", lake, *data, "--erase-client", "device-1", "--dry-run")["erased_rows"] == 100
    (tmp_path / "target").mkdir()
    with Broker(tmp_path / "target") as target:
        url = f"mqtt://127.0.0.1:{target.process.ports['tcp']}"
        to = ["--into", url, "--prefix", "again", "--topic", "plant/+/temp"]
        assert run("replay", "--lake", lake, *to)["sent"] == 150
        assert history(spark, "again/#", path=target.data).count() == 150


def test_days_come_back_from_a_store(spark: SparkSession, tmp_path: Path, lake: str) -> None:
    with Broker(tmp_path, "shards = 2\ngeneration_bytes = 1048576\n") as broker:
        for number in range(3):
            broker.publish(numbered(1_000 * number, 400, size=8_000))
            broker.process.wait_for("generation begins", number + 1)
        archive(spark, broker, lake)
    whole = history(spark, path=broker.data).count()
    drop_oldest(broker.data, 2)
    assert history(spark, path=broker.data).count() < whole

    day = datetime.now(UTC).date().isoformat()
    run("relayout", "--data", str(broker.data), "--from-lake", lake, "--day", day)

    assert history(spark, path=broker.data).count() == whole == 1_200


def test_the_command_with_a_settings_file_shows_no_credential_to_anybody(
    broker: Broker, s3: S3, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in what it prints and logs, nor in the list of processes, Java's and the workers' included."""
    settings = tmp_path / "lake.toml"
    settings.write_text(
        f'[s3]\nendpoint = "{s3.endpoint}"\naccess_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\nmax_retries = 2\n'
    )
    settings.chmod(0o600)
    for name in s3.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv(SETTINGS, str(settings))
    s3.faults = Faults(key=KEY)
    broker.publish(numbered(0, 300))
    shown: list[str] = []

    def archive_by_command(*more: str) -> int:
        words = ["archive", "--data", str(broker.data), "--lake", lake, "--master", "local[2]", *more]
        process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while process.poll() is None:
            shown.extend(_command_lines())
            threading.Event().wait(0.1)
        shown.append(process.communicate(timeout=DEADLINE_S)[0])
        return process.returncode

    assert archive_by_command("--json") == 0, shown[-1]
    assert payloads(lake) == sent(broker.sent)
    assert any("SparkSubmit" in text for text in shown), "Java was not seen"
    s3.faults = Faults(key="AKIAANOTHER")
    assert archive_by_command() == 2, shown[-1]
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in shown[-1]
    assert not [text for text in shown if SECRET in text or KEY in text]


def _command_lines() -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue  # it has just ended
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lake", "ftp://host/lake"], "which is no store known here; give a folder, s3://BUCKET/PATH"),
        (["--lake", "s3://key:planted@lakes/a"], "credentials belong into the environment"),
        (["--lake", "s3://nowhere/lake"], "there is no nowhere in the store; make it first"),
    ],
)
def test_a_wrong_address_ends_the_command_before_spark_starts(
    broker: Broker, s3: S3, words: list[str], said: str
) -> None:
    done = CliRunner().invoke(app, ["spark", "archive", "--data", str(broker.data), *words], env={"COLUMNS": "400"})

    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "planted" not in done.output


def test_a_store_reads_with_the_options_it_was_given(s3: S3, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers get the store of the driver, and not what their own environment says."""
    store = LakeStore.at(lake)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store.put("letter", b"dear")

    assert store.get("letter") == b"dear"
