"""Every job on a real cluster, whose workers cannot see the broker's folder: by endpoint, equal to brute force.

One world for all: a master and two workers from the PySpark package, a driver, and a broker with its history process.
Executors are killed while jobs run.

HOLDFAST_SPARK_KILLS=10 kills so many executors during each job; in CI, one during each of three that take some seconds.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisServer
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.upkeep import vacuum
from holdfast.pipeline.lake.writer import lock_folder
from tests.servers.backends import Queues, held, on
from tests.servers.conftest import postgres, redis
from tests.spark.declared_pipeline import Expected, Found, declare, some
from tests.spark.lakes import check_no_file_is_left, check_whole, payloads, sent
from tests.spark.plant import GROUP, OFFLINE, STORAGE, Plant
from tests.spark.publishers import Broker
from tests.spark.standalone import MANY_KILLS, Driver, Standalone
from tests.spark.test_migrate import fill

__all__ = ["postgres", "redis"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: For each job; 0 stands for CI's share.
KILLS = int(os.environ.get("HOLDFAST_SPARK_KILLS", "0"))


_PIPELINE = """\
name = "x"
state = "state"
[source]
data = "{}"
[decode]
format = "json"
columns = [{{ name = "value", type = "double" }}]
[[sink]]
kind = "delta"
of = "rows"
path = "rows"
"""


class ServedPlant(Plant):
    """A broker that has seen a bit of everything, with its history process."""

    def __init__(self, folder: Path) -> None:
        Broker.__init__(self, folder, STORAGE, served=True)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def plant(world: Standalone) -> Iterator[Plant]:
    """Is only read."""
    with ServedPlant(_folder(world.hidden, "plant")) as running:
        running.fill()
        yield running


@pytest.fixture(scope="module")
def driver(world: Standalone) -> Iterator[Driver]:
    # Spark's 200 partitions are meant for more than two cores.
    with Driver(world, {"spark.sql.shuffle.partitions": "4", **(MANY_KILLS if KILLS else {})}) as running:
        yield running


@pytest.fixture
def other(world: Standalone, tmp_path: Path) -> Iterator[Broker]:
    """A broker that a test has for itself."""
    with Broker(_folder(world.hidden, tmp_path.name), "shards = 3\n", served=True) as running:
        yield running


@pytest.fixture
def shared(world: Standalone, tmp_path: Path) -> Path:
    """A folder that driver and executors see alike."""
    return _folder(world.shared, tmp_path.name)


def _folder(parent: Path, name: str) -> Path:
    made = parent / name
    made.mkdir()
    return made


def endpoint(broker: Broker) -> list[str]:
    return ["--endpoint", broker.where["endpoint"]]


def kills(world: Standalone, in_ci: int = 0, longest_s: float = 0.5) -> AbstractContextManager[list[int]]:
    """So many executors of the cluster, while the block runs, each within `longest_s` of its work."""
    count = KILLS or in_ci
    return world.kills(count, longest_s) if count else nullcontext([])


def test_executors_cannot_see_the_folder_of_the_broker(world: Standalone, driver: Driver, plant: Plant) -> None:
    seen = driver.ask("sees", path=str(plant.data / "rocks" / "CURRENT"))

    assert seen == {"driver": True, "executors": [False]}
    assert len(world.executors(at_work=True)) == 2


def test_a_read_has_every_message_once(world: Standalone, driver: Driver, plant: Plant) -> None:
    with kills(world):
        found = driver.ask("read", endpoint=plant.where["endpoint"])

    assert found == sorted(message.payload.decode() for message in plant.sent)
    wanted = sorted(one.payload.decode() for one in plant.sent if one.topic.endswith("/temp"))
    assert driver.ask("read", endpoint=plant.where["endpoint"], topic="+/+/temp") == wanted


def test_a_stream_gives_every_message_once(world: Standalone, driver: Driver, other: Broker, shared: Path) -> None:
    first = other.publish(some(0, 300))
    with kills(world):
        driver.ask("stream", endpoint=other.where["endpoint"], folder=str(shared))
    second = other.publish(some(300, 200))
    driver.ask("stream", endpoint=other.where["endpoint"], folder=str(shared), most="60")

    found = driver.ask("payloads", folder=str(shared / "rows"))
    assert found == sorted(message.payload.decode() for message in [*first, *second])


def test_an_archive_is_whole(world: Standalone, driver: Driver, plant: Plant, shared: Path) -> None:
    lake = shared / "lake"
    with kills(world):
        told = driver.command("archive", *endpoint(plant), "--lake", str(lake), "--batch", "400", "--json")

    assert json.loads(told)["rows"] == len(plant.sent)
    assert payloads(lake) == sent(plant.sent)
    check_whole(lake)
    # What a killed attempt has written is not in the table, and goes when it is a week old.
    again = driver.command("archive", *endpoint(plant), "--lake", str(lake), "--json")
    assert json.loads(again)["rows"] == 0
    with lock_folder(lake):
        vacuum(Lake.open(lake), datetime.now(UTC) + timedelta(days=8))
    check_no_file_is_left(lake)
    assert payloads(lake) == sent(plant.sent)


def test_retain_erases_a_client_from_a_lake_that_all_see(
    world: Standalone, driver: Driver, other: Broker, shared: Path
) -> None:
    """The log of the broker's folder is the driver's business, the lake that of executors."""
    published, lake = other.publish(some(0, 1_500 if KILLS else 300)), str(shared / "lake")
    driver.command("archive", *endpoint(other), "--lake", lake, "--batch", "40" if KILLS else "100", "--no-compact")
    # All of its work is a few short tasks.
    with kills(world, longest_s=0.0):
        given = ["--lake", lake, "--data", str(other.data), "--erase-client", "device-1", "--json"]
        told = json.loads(driver.command("retain", *given))

    left = [message for message in published if message.client_id != "device-1"]
    assert 0 < len(left) < len(published)
    assert told["dry_run"] is False
    assert payloads(shared / "lake") == sent(left)
    assert driver.ask("read", endpoint=other.where["endpoint"]) == sorted(one.payload.decode() for one in left)


def test_learn_counts_every_topic(world: Standalone, driver: Driver, plant: Plant) -> None:
    with kills(world, in_ci=1):
        told = json.loads(driver.command("learn", *endpoint(plant), "--json"))

    topics = {message.topic for message in plant.sent}
    size = sum(len(message.payload) for message in plant.sent)
    assert (told["messages"], told["topics"]) == (len(plant.sent), len(topics))
    found = {one["pattern"]: one["messages"] for one in told["patterns"]}
    for pattern in ("plant/+/temp", "plant/+/flow", "press/+/flow"):
        matching = re.compile(pattern.replace("+", "[^/]+"))
        assert found[pattern] == sum(bool(matching.fullmatch(message.topic)) for message in plant.sent)
    assert told["bytes"] >= size


def test_sql_answers_over_all_tables(world: Standalone, driver: Driver, plant: Plant) -> None:
    statement = (
        "SELECT topic, count(*) AS n, sum(octet_length(payload)) AS size FROM history GROUP BY topic "
        "UNION ALL SELECT topic, -1, octet_length(payload) FROM retained "
        f"UNION ALL SELECT client_id, -2, size(subscriptions) FROM sessions WHERE client_id = '{OFFLINE}'"
    )
    with kills(world):
        lines = driver.command("sql", *endpoint(plant), "--format", "json", statement).splitlines()

    found = sorted((row["topic"], row["n"], row["size"]) for row in map(json.loads, lines))
    counts = Counter(message.topic for message in plant.sent)
    sizes = Counter[str]()
    for message in plant.sent:
        sizes[message.topic] += len(message.payload)
    retained = {message.topic: len(message.payload) for message in plant.sent if message.retain}
    history = [(topic, count, sizes[topic]) for topic, count in counts.items()]
    assert found == sorted([*history, *((topic, -1, size) for topic, size in retained.items()), (OFFLINE, -2, 1)])


def test_a_report_shows_what_was_published(world: Standalone, driver: Driver, plant: Plant, shared: Path) -> None:
    page = shared / "report.html"
    with kills(world, in_ci=1):
        told = json.loads(driver.command("report", *endpoint(plant), "-o", str(page), "--json"))

    topics, clients = ({getattr(one, name) for one in plant.sent} for name in ("topic", "client_id"))
    assert (told["messages"], told["topics"]) == (len(plant.sent), len(topics))
    rows = _rows(page)
    for client, count in Counter(message.client_id for message in plant.sent).items():
        assert any(row[:2] == [client, f"{count:,}"] for row in rows), client
    assert len(clients) > 1
    patterns = {row[0]: row[3] for row in rows if "+" in row[0] and len(row) > 4}
    assert patterns == dict.fromkeys(("plant/+/temp", "plant/+/flow", "press/+/flow"), "300")
    retained = {message.topic for message in plant.sent if message.retain}
    assert any(row[:2] == ["plant/…", str(len(retained))] for row in rows)
    assert {OFFLINE, GROUP} <= {row[0] for row in rows}


def _rows(page: Path) -> list[list[str]]:
    """The cells of all tables of a page, as texts."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in found]
    return [[unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in cells if row]


def test_an_audit_judges_every_message_and_session(
    world: Standalone, driver: Driver, plant: Plant, shared: Path
) -> None:
    with kills(world, in_ci=1):
        told = json.loads(driver.command("audit", *endpoint(plant), "--json"))

    assert (told["sound"], told["messages"], told["sessions"]) == (True, len(plant.sent), 2)
    checks = {check["name"]: check for check in told["checks"]}
    retained = {message.topic for message in plant.sent if message.retain}
    assert checks["retained"]["examined"] == len(retained)
    assert checks["index"]["examined"] == len({(row["shard"], row["topic"]) for row in _stored(plant)})
    assert checks["index"]["notes"] == checks["sessions"]["notes"] == []
    assert checks["serials"]["examined"] == len(plant.sent)
    assert checks["sessions"]["examined"] > 0


def test_migrate_copies_every_queue_once(
    world: Standalone, driver: Driver, redis: RedisServer, postgres: PostgresServer
) -> None:
    source, target = f"{redis.url}#cluster:", f"{postgres.url}#cluster"
    on(source, fill)
    wanted: Queues = on(source, held)
    with kills(world):
        told = json.loads(driver.command("migrate", "--from", source, "--to", target, "--json"))

    assert (told["queues"], told["failed"]) == (len(wanted), 0)
    assert told["messages"] == sum(len(messages) for _last, messages in wanted.values())
    assert on(target, held) == on(source, held) == wanted


@pytest.mark.parametrize("job", ["load", "relayout", "audit", "sql", "archive", "run"])
def test_what_executors_cannot_see_is_refused_before_anything_begins(
    driver: Driver, plant: Plant, shared: Path, job: str
) -> None:
    rows, file = shared / "rows.csv", shared / "pipeline.toml"
    rows.write_text("ts,topic,payload\n2026-01-01T00:00:00Z,a/b,x\n", encoding="utf-8")
    file.write_text(_PIPELINE.format(plant.data), encoding="utf-8")
    data = ["--data", str(plant.data)]
    words = {
        "load": [str(rows), *data],
        "relayout": [*data, "--learn"],
        "audit": data,
        "sql": [*data, "SELECT 1"],
        "archive": [*data, "--lake", str(shared / "lake")],
        "run": [str(file)],
    }
    before = _left_by_jobs(plant.data)

    told = driver.refusal(job, *words[job])

    assert f"{plant.data} is a folder of this machine, which executors of spark://127.0.0.1:" in told
    assert ("--master local[*]" if job in ("load", "relayout") else "--endpoint") in told
    assert _left_by_jobs(plant.data) == before
    assert not (shared / "lake").exists()


@pytest.mark.parametrize("job", ["archive", "retain", "run"])
def test_a_table_that_executors_do_not_share_is_refused_before_anything_is_written(
    world: Standalone, driver: Driver, other: Broker, shared: Path, tmp_path: Path, job: str
) -> None:
    """Each machine has a folder of that name: tasks would write to theirs, and the driver commit what it cannot see."""
    other.publish(some(0, 50))
    lake, file, data = world.hidden / f"{tmp_path.name}-lake", shared / "pipeline.toml", str(other.data)
    text = _PIPELINE.replace("data =", "endpoint =").format(other.where["endpoint"])
    file.write_text(text.replace('path = "rows"', f'path = "{lake}"'), encoding="utf-8")
    if job == "retain":
        driver.command("archive", *endpoint(other), "--lake", str(shared / "lake"), "--no-compact")
        shutil.copytree(shared / "lake", lake)
    words = {
        "archive": [*endpoint(other), "--lake", str(lake)],
        "retain": ["--lake", str(lake), "--data", data, "--erase-client", "device-1"],
        "run": [str(file)],
    }
    before, leases = _every_file(lake), _left_by_jobs(other.data)

    told = driver.refusal(job, *words[job])

    assert f"{lake} is a folder of this machine, which executors of spark://127.0.0.1:" in told
    assert "a folder that all of them share" in told
    assert _every_file(lake) == before
    assert lake.exists() == (job == "retain")
    assert _left_by_jobs(other.data) == leases


def _every_file(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _left_by_jobs(data: Path) -> list[Path]:
    """What others than the broker write to a data folder."""
    return sorted(path for name in ("leases/*", "incoming/*", "erasures*", ".*") for path in data.glob(name))


def test_a_replay_publishes_every_message_once(
    world: Standalone, driver: Driver, plant: Plant, other: Broker, shared: Path
) -> None:
    into = ["--into", f"mqtt://127.0.0.1:{other.process.ports['tcp']}", "--prefix", "again"]
    named = ["--name", "cluster", "--state", str(shared)]
    with kills(world):
        told = json.loads(driver.command("replay", *endpoint(plant), *into, *named, "--json"))

    assert told["messages"] == len(plant.sent)
    found = sorted((row["topic"], row["payload"]) for row in _stored(other))
    assert found == sorted((f"again/{one.topic}", one.payload) for one in plant.sent)


def _stored(broker: Broker) -> list[dict[str, Any]]:
    """What a broker has in its log."""
    with HistoryReader.open(broker.data) as reader:
        return [
            row
            for part in reader.parts()
            for batch in reader.batches(part, (), ["shard", "topic", "payload"])
            for row in batch.to_pylist()
        ]


def test_a_declared_pipeline_gives_what_a_plain_calculation_gives(
    world: Standalone, driver: Driver, other: Broker, shared: Path
) -> None:
    published = other.publish(some(0, 300))
    file = declare(shared, other, batch=150)
    with kills(world):
        driver.command("run", str(file), "--json")

    expected, found = Expected(published), Found(shared, other)
    assert found.rows() == sorted(expected.rows)
    assert found.windows() == found.published() == expected.windows()
    assert found.quarantined() == expected.quarantined
