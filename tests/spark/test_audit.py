"""The audit on Spark: nothing wrong with a broker under load, whatever is planted found, and a kill leaves nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.audit.findings import AuditReport, Fault
from holdfast.pipeline.audit.job import AuditJob, audit_history
from holdfast.pipeline.audit.lake_check import differing_faults
from holdfast.pipeline.audit.session_check import owed_messages, session_faults
from holdfast.pipeline.audit.stored_state import queue_states, stored_messages
from holdfast.pipeline.lake.retention import RetainJob, run_retain
from holdfast.pipeline.source.history_source import session_ranges
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.pipeline.spark.runner import SparkRunner
from holdfast.records.messages import decode_message
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish, replay
from tests.slow_world import kept, subscribe
from tests.spark.lakes import archive
from tests.spark.plant import STORAGE, Plant
from tests.spark.planted_faults import Hand
from tests.spark.publishers import Sent, meanwhile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
DEADLINE_S = 300.0
#: One of many devices, which the log finds by its index.
EXACT = "plant/33/temp"
COMMAND = (sys.executable, "-c", "from holdfast.cli.main import main; main()", "spark", "audit")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    """Its first generations have a key for each message, the others have commit pages."""
    with Plant(tmp_path_factory.mktemp("audited"), "learned") as running:
        running.subscribe("meter", EXACT)
        running.fill()
        running.restart(STORAGE)
        running.subscribe("reader", "#", qos=2)
        running.publish(Sent(f"plant/{number % 40}/temp", b"%d" % number, qos=number % 3) for number in range(300))
        yield running


@contextmanager
def under_load(world: Plant) -> Iterator[None]:
    """Messages come in, and clients come and go, for as long as the block takes."""

    def publish() -> None:
        start = len(world.sent)
        world.publish(
            Sent(f"plant/{number % 40}/temp", b"x", client_id=f"device-{number // 30 % 3}", retain=number % 7 == 0)
            for number in range(start, start + 60)
        )
        world.subscribe("reader", f"press/{start}/#")

    with meanwhile(publish, 0.3):
        yield


def audited(spark: SparkSession, data: Path, lake: Path | None = None) -> AuditReport:
    return audit_history(spark, AuditJob({"path": str(data)}, lake, most_examples=50))


def faults(found: AuditReport, check: str) -> list[Fault]:
    [one] = [one for one in found.checks if one.name == check]
    return list(one.examples)


def left_by_jobs(data: Path) -> list[Path]:
    """What others than the broker write to a data folder."""
    return sorted([*data.glob("leases/*"), *data.glob("erasures*"), *data.glob(".*")])


def killed(world: Plant) -> None:
    """An audit in a process of its own, with kill -9 in the middle: it leaves nothing."""
    before = left_by_jobs(world.data)
    command = [*COMMAND, "--data", str(world.data), "--master", "local[2]"]
    environment = {**os.environ, "HOLDFAST_FAULT": "audit-read"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == -9, done.stderr
    assert left_by_jobs(world.data) == before


def test_a_broker_under_load_is_found_sound_and_so_is_its_lake(
    spark: SparkSession, world: Plant, tmp_path: Path
) -> None:
    """L1, L14, Q9: with erased messages in the log and in the lake, too, and after an audit that was killed."""
    lake = tmp_path / "lake"
    archive(spark, world, lake)
    world.publish([Sent("plant/1/temp", b"not archived", client_id="device-2")])
    job = RetainJob(lake, world.data, client="device-2", by="test")
    assert run_retain(job, lambda: SparkRunner(spark)).erased_rows > 0
    archive(spark, world, lake)
    with under_load(world):
        killed(world)
        done = CliRunner().invoke(app, ["spark", "audit", "--data", str(world.data), "--lake", str(lake), "--json"])

    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["sound"], found["sessions"]) == (True, 4)
    examined = {check["name"]: check["examined"] for check in found["checks"]}
    assert examined["serials"] >= 1_200
    assert examined["index"] > 100
    assert examined["sessions"] >= 4 * 3
    assert examined["retained"] >= 2
    assert examined["lake serials"] > 1_000


def test_every_kind_of_session_is_counted_alike(spark: SparkSession, tmp_path: Path) -> None:
    """By the broker's rule and by joins: in flight, overlapping, no local, QoS 0, since, groups, replays, expiry."""
    with DiskWorld(tmp_path, shards=2) as world:
        slow = kept(world, "slow", receive_maximum=1)
        slow.send(subscribe("plant/#", 1), subscribe("plant/1/#", 2, packet_id=51))
        echo = kept(world, "echo")
        echo.send(Subscribe(1, (Subscription(parse_filter(b"plant/+"), 1, no_local=True),)))
        echo.send(Publish("plant/own", b"not for itself", 1, 1))
        kept(world, "zero").send(subscribe("#", 0))
        member = kept(world, "member", receive_maximum=1)
        member.send(subscribe("$share/team/plant/#", 1))
        publish(world, ("plant/1/a", b"in flight"), ("plant/1", b"1"), ("$own/1", b"1"), ("other", b"1"))
        publish(world, ("plant/1/a", b"2"), qos=2)
        world.connect("other").send(Publish("plant/2", b"nobody waits for it"))
        for peer in (slow, echo, member):
            peer.drop()
        late = kept(world, "late")
        late.send(subscribe("#", 2))
        late.drop()
        again = kept(world, "again", receive_maximum=1)
        replay(again, "plant/#", qos=1, replay_from="earliest")
        again.drop()
        publish(world, *[(f"plant/{number}", b"x") for number in range(5)])
        writer = world.connect("writer")
        writer.send(Publish("plant/9", b"short", 1, 1, properties=Properties(message_expiry_interval=5)))
        world.tick(10)
        now_us = world.clock.wall_us()

    options = ReadOptions(path=str(tmp_path))
    queues = queue_states(spark, options, session_ranges(options), now_us).persist()
    with HistoryReader.open(tmp_path) as reader:
        parts = reader.parts()
    found = owed_messages(queues, stored_messages(spark, options, parts, checksums=False), now_us)
    wrong = session_faults(queues, found).collect()
    by_owner = queues.groupBy("owner", "replay").agg({"owed": "sum"}).collect()
    queues.unpersist()

    assert wrong == []
    counts = {(row["owner"], row["replay"]): row["sum(owed)"] or 0 for row in by_owner}
    assert counts == {
        ("slow", None): 8,
        ("echo", None): 5,
        ("zero", None): 0,
        ("member", None): 0,
        ("$share/team/plant/#", None): 8,
        ("late", None): 5,
        ("again", None): 0,
        ("again", "plant/#"): 9,
    }


def test_what_the_log_has_erased_may_still_be_in_the_lake(spark: SparkSession) -> None:
    """It has no checksum in the log then, and all else is compared."""
    columns = "shard int, serial bigint, offset bigint, topic string, client_id string, checksum bigint"
    lake = [(0, serial, 10 * serial, "door/7", "alice", 100 + serial) for serial in range(1, 5)]
    log = [
        (0, 1, 10, "door/7", "alice", 101, False),
        (0, 2, 20, "door/7", "alice", None, True),
        (0, 3, 30, "door/7", "alice", 999, False),
        (0, 4, 40, "door/8", "alice", None, True),
    ]
    found = differing_faults(
        spark.createDataFrame(lake, columns), spark.createDataFrame(log, f"{columns}, erased boolean")
    )
    assert sorted(row["serial"] for row in found.collect()) == [3, 4]


def test_what_is_planted_is_found(spark: SparkSession, world: Plant, tmp_path: Path) -> None:
    """In the database itself: removed messages, a swapped pair, serials that are there twice, a broken index."""
    lake = tmp_path / "lake"
    archive(spark, world, lake)
    world.stop()
    try:
        hand = Hand(world.data, tmp_path / "copy")
    finally:
        world.start()
    family, cells = hand.find(lambda _family, cells: len(cells) > 300)
    first, removed, twice = cells[10], cells[11], cells[50]
    hand.remove(family, removed)
    stream = {cell[0][1:9] for cell in cells[100:200]}.pop()
    one, other = [cell for cell in cells[100:] if cell[0][1:9] == stream][:2]
    hand.swap(family, one, other)
    hand.repeat_serial(family, twice, cells[49])
    assert sum(hand.forget_postings(name, b"33") for name in hand.families) > 0
    pages_family, [cut, repeated, *_more] = hand.find_pages(lambda pages: len(pages) > 2)
    cut_serial = hand.cut_page(pages_family, cut)
    repeated_serial = hand.repeat_serial_of_page(pages_family, repeated)
    kept = next(message for message in reversed(world.sent) if message.retain and message.payload)
    hand.forget_retained(kept.topic)
    hand.close()

    found = audited(spark, hand.folder, lake)

    gone = decode_message(removed[1])
    serials = {(fault.about, fault.detail) for fault in faults(found, "serials")}
    assert ("messages are missing before it", f"serials {gone.serial} to {gone.serial}") in serials
    assert ("messages are missing before it", f"serials {cut_serial} to {cut_serial}") in serials
    assert ("its serial is there twice", None) in serials
    doubled = {fault.serial for fault in faults(found, "serials") if "twice" in fault.about}
    assert doubled == {decode_message(cells[49][1]).serial, repeated_serial}
    swapped = {fault.serial for fault in faults(found, "order")}
    assert decode_message(one[1]).serial in swapped
    index = faults(found, "index")
    assert EXACT in {fault.topic for fault in index}
    owing = faults(found, "sessions")
    assert {"a session is owed more than its queue holds"} == {fault.about for fault in owing}
    assert {fault.client for fault in owing} == {"meter"}
    absent = [fault for fault in faults(found, "retained") if "nothing is" in fault.about]
    assert [fault.topic for fault in absent] == [kept.topic]
    differing = {fault.serial for fault in faults(found, "lake and log")}
    assert decode_message(cells[49][1]).serial in differing
    assert decode_message(first[1]).serial not in {fault.serial for fault in faults(found, "serials")}
