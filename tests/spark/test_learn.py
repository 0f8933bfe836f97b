"""`holdfast spark learn`: Spark counts what brute force counts, and a real broker goes on with what was learnt."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.pipeline.learn.description import explain_patterns
from holdfast.pipeline.learn.job import LearnJob, choose_patterns, learn_history
from holdfast.pipeline.learn.learner import Learner, TopicPattern, learn_patterns
from holdfast.pipeline.learn.topic_counts import SparkTopicCounts, UnmatchedTopics
from holdfast.pipeline.spark.progress import no_progress
from holdfast.records.messages import stored_topic
from holdfast.storage.rocks.log.next_patterns import FILE_NAME, read_patterns
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from tests.spark.lakes import archive
from tests.spark.publishers import Broker, Sent, meanwhile
from tests.unit.pipeline.topic_counts import learn_from as learn_by_brute_force

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SHAPES = ("engine/temp", "engine/oil", "gps", "status", "door/front/state")
DEADLINE_S = 300.0
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "learn")


def silent(_share: float | None, _words: str) -> None:
    pass


def learnt(spark: SparkSession, query: str) -> tuple[list[TopicPattern], UnmatchedTopics]:
    learner = Learner(["default"])
    with closing(SparkTopicCounts(spark.sql(query), {0: "default"}, learner)) as counting:
        return learn_patterns(counting, learner, silent), counting.outside


def test_20_000_devices_with_five_topics_have_exactly_five_patterns(spark: SparkSession) -> None:
    names = ("temp", "oil", "gps", "status", "door")
    shapes = ", ".join(f"'{name}'" for name in names)
    found, _outside = learnt(
        spark,
        f"""SELECT 0 AS shard, concat('fleet/dev-', lpad(id div 5, 6, '0'), '/', array({shapes})[id % 5]) AS topic,
            20 AS size FROM range(100000)""",
    )
    assert sorted(pattern.text for pattern in found) == sorted(f"fleet/+/{name}" for name in names)
    assert {(pattern.topics, pattern.messages, pattern.size_bytes) for pattern in found} == {(20_000, 20_000, 400_000)}
    assert all(one.is_sure for one in explain_patterns(found))
    [level] = found[0].varying
    assert (level.values, level.first, level.last) == (20_000, "dev-000000", "dev-019999")
    assert level.entropy_bits == pytest.approx(14.29)


def test_spark_counts_what_brute_force_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Deep and shallow, `$` and empty levels, a name beside values, tokens that recur and tokens that do not."""
    dice = Random(5)
    sizes: dict[str, list[int]] = {}

    def add(topic: str) -> None:
        sizes.setdefault(topic, []).append(dice.randrange(100))

    for number in range(1_500):
        device = f"d{dice.randrange(120)}"
        kind = dice.choice(["temp", "oil", "gps/lat", "gps/lon"])
        add(f"fleet/{device}/{kind}")
        add(f"$state/{device}")
        add(f"site/{dice.choice(['main', *'abcdefghijklmn'])}/{number}/x")
        add("/".join(dice.choice(["", "a", "b", f"n{number}"]) for _level in range(dice.randrange(1, 5))) or "/")
    rows = [(topic, len(all_of), sum(all_of)) for topic, all_of in sizes.items()]
    sizes |= {"/" * 40: [3], "x" * 2_000: [1, 2]}
    file = tmp_path / "topics.json"
    lines = [json.dumps({"topic": topic, "size": size}) for topic, all_of in sizes.items() for size in all_of]
    file.write_text("\n".join(lines), encoding="utf-8")

    found, outside = learnt(spark, f"SELECT 0 AS shard, topic, size FROM json.`{file}`")

    assert found == learn_by_brute_force(rows)
    assert len(found) > 20
    assert outside == (2, 3, 6), "too deep and too long for any pattern"
    with pytest.raises(PermanentError, match="a shard that belongs to no zone"):
        learnt(spark, "SELECT 1 AS shard, 'a/b' AS topic, 3 AS size")


# ---- with a broker

FLEET = sorted(f"fleet/+/{shape}" for shape in SHAPES)
APPLIED = {"default": FLEET, "press": ["press/+/force"]}
STORAGE = """
layout = "learned"
[zones.press]
filter = "press/#"
layout = "learned"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Noise first, so that it takes the fleet for a value; then a fleet, and presses in a zone of their own."""
    noise = [f"test{number}/{'x' * (number % 3)}" for number in range(30)]
    topics = [f"fleet/dev-{number:03d}/{shape}" for number in range(150) for shape in SHAPES]
    presses = [f"press/{number}/force" for number in range(40)]
    with Broker(tmp_path_factory.mktemp("learn"), STORAGE) as running:
        running.publish(Sent(topic, b"21.5") for topic in [*noise, *topics, *topics, *presses])
        yield running


def patterns_now(data: Path, zone: str = "default") -> list[list[str]]:
    """What each generation of a zone has, the oldest first."""
    with HistoryReader.open(data) as reader:
        found = []
        for record in reader.generations(zone):
            [(_shard, piece)] = LiveGeneration(record).by_shard.items()
            piece.layout.load(reader.family(piece.family))
            topics = piece.layout.learned()
            assert topics is not None
            found.append(sorted(pattern.text for pattern in topics.patterns()))
        return found


@contextmanager
def publishing(broker: Broker) -> Iterator[None]:
    """The fleet goes on publishing, as long as the block takes."""

    def publish() -> None:
        broker.publish([Sent(f"fleet/dev-{number:03d}/gps", b"48.1") for number in range(150)])

    with meanwhile(publish, 0.2):
        yield


def run(*words: str) -> dict[str, Any]:
    shown = CliRunner().invoke(app, ["spark", "learn", *words, "--json"])
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.stdout)
    found.pop("seconds")
    return found


def test_a_broker_goes_on_with_what_was_learnt_whatever_is_killed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """L9, L10, L11: killed when it knows all and has said nothing, and run again: as if nothing had happened."""
    data = broker.data
    before = patterns_now(data)
    assert "+/+/gps" in before[0], "the broker was led astray"
    with publishing(broker):
        killed = subprocess.run(
            [*COMMAND, "--data", str(data), "--apply", "--master", "local[2]"],
            env={**os.environ, "HOLDFAST_FAULT": "learn-learnt"},
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert killed.returncode == -9, killed.stderr
    assert not (data / FILE_NAME).exists()
    assert patterns_now(data) == before

    undisturbed = run("--data", str(data))
    assert {zone: sorted(given) for zone, given in undisturbed["zones"].items()} == APPLIED
    doubts = {one["pattern"]: one["doubts"] for one in undisturbed["patterns"] if not one["sure"]}
    assert set(doubts) == {"+/", "+/x", "+/xx"}
    assert all("few observations: 10 topics so far" in said for said in doubts.values())
    assert undisturbed["messages"] == len(broker.sent)
    again = run("--data", str(data), "--apply")
    assert again == undisturbed | {"applied": True}
    assert read_patterns(data) == {
        zone: tuple(text.encode() for text in given) for zone, given in undisturbed["zones"].items()
    }
    begun = broker.process.wait_for("generation begins", 2)
    assert {(line["zone"], line["number"]) for line in begun} == {("default", 2), ("press", 2)}
    broker.kill()
    broker.start()
    now = patterns_now(data)
    assert now[0] == before[0]
    assert [text for text in now[1] if text.startswith("fleet")] == FLEET
    assert not [text for text in now[1] if text.startswith("+/+/")]
    new = [Sent(f"fleet/dev-{number:03d}/gps", b"48.1") for number in range(150)]
    broker.publish(new)
    assert [text for text in patterns_now(data)[1] if text.startswith("fleet")] == FLEET, "no device has its own"
    with HistoryReader.open(data) as reader:
        filtered = (b"fleet", b"dev-007", b"#")
        topics = [stored_topic(value).decode() for value in reader.start_replay(reader.parts(), filtered).records()]
    assert sorted(topics) == sorted(one.topic for one in broker.sent if one.topic.startswith("fleet/dev-007/"))


def test_lake_and_log_are_learnt_from_as_one(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    archive(spark, broker, lake)
    broker.publish([Sent(f"fleet/dev-{number:03d}/gps", b"48.1") for number in range(50)])
    found = learn_history(spark, LearnJob({"path": str(broker.data)}, zone="default", lake=lake), no_progress)
    own = [one for one in broker.sent if not one.topic.startswith("press/")]
    assert (found.messages, found.topics) == (len(own), len({one.topic for one in own}))
    assert found.size_bytes == sum(len(one.payload) for one in own)
    assert {zone: sorted(texts) for zone, texts in choose_patterns(found.found).items()} == {"default": FLEET}
