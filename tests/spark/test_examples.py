"""The scripts under examples/ do what their pages say, on the messages of a real broker."""

import asyncio
import json
import math
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.client.asyncio_client import Client
from holdfast.client.options import ConnectionOptions
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Subscription
from tests.history.processes import until
from tests.spark.examples import ROOT, RunningExample, example, script
from tests.spark.publishers import Broker, Sent
from tests.spark.stalled_proxy import StalledProxy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
#: Readings of a device: one in ten minutes, for half a day.
READINGS = 72
#: Of one batch; each has more than 100 bytes.
ALERTS = 2_000
_CODE = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def reading(device: str, number: int, celsius: float | None = None) -> Sent:
    """Warm by day, with a little noise."""
    if celsius is None:
        celsius = 20 + 5 * math.sin(number / 23 + ord(device[-1])) + number * 7919 % 11 / 50
    payload = {"at": (MIDNIGHT + timedelta(minutes=10 * number)).isoformat(), "celsius": celsius}
    return Sent(f"plant/hall/{device}/temperature", json.dumps(payload).encode(), client_id=device)


def address(port: int) -> str:
    return f"mqtt://127.0.0.1:{port}"


def half_a_day() -> list[Sent]:
    """Three devices; one has a reading that is far too high, one is silent for a while."""
    return [
        reading(device, number, 60.0 if (device, number) == ("d2", 40) else None)
        for device in ("d1", "d2", "d3")
        for number in range(READINGS)
        if device != "d3" or not 20 <= number < 30
    ]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("plant")) as broker:
        broker.publish(half_a_day())
        broker.publish(
            [
                Sent("plant/hall/d4/status", b"offline"),
                Sent("plant/hall/d4/battery", b'{"celsius": "21.5", "battery": {"volt": 3.1}}'),
            ]
        )
        yield broker


def test_gaps_are_found_and_what_is_late_is_counted(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    gaps = example("device_gaps")
    broker.publish(half_a_day())
    found, late = gaps.main(spark, str(broker.data), str(tmp_path / "work"))
    silent = (MIDNIGHT + timedelta(minutes=200), MIDNIGHT + timedelta(minutes=300))
    wanted = [("d3", *(moment.replace(tzinfo=None) for moment in silent))]
    rows = found.selectExpr("device", "cast(silent_from as timestamp_ntz)", "cast(silent_until as timestamp_ntz)")
    assert ([tuple(row) for row in rows.collect()], late) == (wanted, 0)

    # One that is hours late, and a new one.
    broker.publish([reading("d3", 25), reading("d1", READINGS)])
    found, late = gaps.main(spark, str(broker.data), str(tmp_path / "work"))
    assert (found.count(), late) == (1, 1)


def test_the_reading_that_is_far_off_is_found(spark: SparkSession, plant: Broker) -> None:
    rows = example("rolling_statistics").main(spark, str(plant.data)).collect()
    assert [(row.device, row.celsius, row.known) for row in rows] == [("d2", 60.0, 12)]
    assert 10 < rows[0].mean < 30


def test_payloads_of_every_shape_are_taken_apart(spark: SparkSession, plant: Broker) -> None:
    rows = example("json_payloads").main(spark, str(plant.data)).collect()
    found = {row["shape"]: (row.messages, row.with_celsius, row.lowest_volt) for row in rows}
    # 60.0 and 20.1 are decimals of different precision: shapes with `celsius` alone are several.
    battery = [values for shape, values in found.items() if shape is not None and "battery" in shape]
    assert battery == [(1, 1, 3.1)]
    assert sum(messages for messages, _celsius, _volt in found.values()) == len(half_a_day()) + 2
    assert sum(celsius for _messages, celsius, _volt in found.values()) == len(half_a_day()) + 1


def test_readings_meet_a_table_of_sites(spark: SparkSession, plant: Broker, tmp_path: Path) -> None:
    sites = tmp_path / "sites.csv"
    sites.write_text("device,site,limit_celsius\nd1,Hamburg,30\nd2,Lyon,50\n", encoding="utf-8")
    rows = example("join_sites").main(spark, str(plant.data), str(sites)).collect()
    assert [tuple(row) for row in rows] == [
        (None, READINGS - 10, 1, 0),
        ("Hamburg", READINGS, 1, 0),
        ("Lyon", READINGS, 1, 1),
    ]


def test_a_line_learns_the_next_hour(spark: SparkSession, plant: Broker, tmp_path: Path) -> None:
    line, explained = example("training_data").main(spark, str(plant.data), str(tmp_path / "features"))
    assert set(line) == {"mean", "trend", "spread", "constant"}
    assert 0.5 < line["mean"] < 1.5
    assert 0.5 < explained < 1
    # Twelve hours are followed by eleven; a device that is silent has fewer.
    assert 11 + 11 < spark.read.parquet(str(tmp_path / "features")).count() < 11 + 11 + 11


def test_alerts_are_published_once(spark: SparkSession, plant: Broker, tmp_path: Path) -> None:
    alerts = example("publish_alerts")
    broker = address(plant.process.ports["tcp"])
    for _run in range(2):
        alerts.main(spark, str(plant.data), broker, str(tmp_path / "work"))
    table = spark.read.format("holdfast").option("topicFilter", "alerts/#").load(str(plant.data))
    rows = table.select("topic", "payload", "content_type").collect()
    assert [(row.topic, row.content_type) for row in rows] == [("alerts/d2", "application/json")]
    assert json.loads(rows[0].payload)["source"] == "plant/hall/d2/temperature"


def watcher(broker: Broker) -> Client:
    """With a session that keeps its messages."""
    port = broker.process.ports["tcp"]
    return Client(ConnectionOptions(port=port, client_id="watcher", clean_start=False, session_expiry_s=3600))


async def watch(broker: Broker) -> None:
    async with watcher(broker) as client:
        await client.subscribe([Subscription(parse_filter(b"alerts/#"), 2)])


async def received(broker: Broker) -> list[tuple[int, bytes]]:
    """What waits for the watcher, up to an empty message: QoS and payload."""
    got: list[tuple[int, bytes]] = []
    async with watcher(broker) as client:
        while not got or got[-1] != (2, b""):
            message = await client.receive()
            client.acknowledge(message)
            got.append((message.qos, message.payload))
    return got[:-1]


def test_each_alert_reaches_its_subscriber_once_though_the_driver_is_killed_within_a_batch(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    asyncio.run(watch(broker))
    broker.publish([reading("d1", number, 50.0 + number) for number in range(ALERTS)])
    work = str(tmp_path / "work")
    port = broker.process.ports["tcp"]
    with (
        closing(StalledProxy(port, 80_000)) as proxy,
        closing(
            RunningExample(tmp_path / "log", "publish_alerts", str(broker.data), address(proxy.port), work)
        ) as running,
    ):
        until(lambda: proxy.stalled.is_set() or not running.runs, "the batch is half way", 240)
        running.kill()
    table = spark.read.format("holdfast").option("topicFilter", "alerts/#").load(str(broker.data))
    assert 0 < table.count() < ALERTS

    example("publish_alerts").main(spark, str(broker.data), address(port), work)
    broker.publish([Sent("alerts/end", qos=2)])
    got = asyncio.run(received(broker))
    assert {qos for qos, _payload in got} == {2}
    assert sorted(json.loads(payload)["celsius"] for _qos, payload in got) == [50.0 + n for n in range(ALERTS)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_has_a_page_that_shows_what_it_does(name: str) -> None:
    text = script(name).read_text(encoding="utf-8")
    page = (ROOT / "docs" / "examples" / f"{name}.md").read_text(encoding="utf-8")
    shown = _CODE.findall(page)
    assert f"](../../examples/{name}.py)" in page
    assert shown, "it shows nothing"
    assert all(block in text for block in shown)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_without_arguments_says_how_it_is_called(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(name)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit, match=f"python examples/{name}.py /(var/lib/holdfast|srv/lake)"):
        runpy.run_path(str(path), run_name="__main__")


def test_the_blocks_of_the_writing_guide_run(spark: SparkSession, plant: Broker, tmp_path: Path) -> None:
    """One after the other, as a reader would paste them."""
    blocks = _CODE.findall((ROOT / "docs" / "guide" / "spark-write.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 3
    text = "\n".join(blocks).replace("mqtt://localhost:1883", address(plant.process.ports["tcp"]))
    text = text.replace("/var/lib/holdfast", str(plant.data)).replace("/var/lib/jobs", str(tmp_path))
    exec(compile(text, "spark-write.md", "exec"), {})
    table = spark.read.format("holdfast").option("topicFilter", "copy/#").load(str(plant.data))
    assert table.count() == len(half_a_day())
