"""The history process under kills, rotation and retention: what a client reads is whole, once, and in order."""

import http.client
import json
import os
import signal
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.ports import free_port
from holdfast.files.token_file import add_token
from holdfast.history.audit.queries import StoredQuery, audit_batches
from holdfast.history.flight.client import FlightHistory
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from tests.history.processes import Broker, Program, is_running, until
from tests.unit.server.certificates import Authority
from tests.unit.storage.rocks.log_node import Node

pytestmark = pytest.mark.slow

NUMBERED = 2_000
_SIZE_BYTES = 40_000


def fill(folder: Path, topic: bytes = b"t", size_bytes: int = _SIZE_BYTES) -> None:
    """Stored messages that make several batches, more than a connection holds."""
    node = Node(folder, ManualClock(wall_us=time.time_ns() // 1000 - 3_600_000_000), shards=1)
    for first in range(0, NUMBERED, 100):
        node.clock.advance(1_000)
        messages = [
            Message(topic, b"%d " % number + bytes(size_bytes), 1, ClientId("p"), node.clock.wall_us())
            for number in range(first, first + 100)
        ]
        node.taken(node.log.write(node.batch(messages)))
        node.settle()
    node.log.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    if broker.process is not None:
        assert broker.end() == 0
        assert not [pid for pid in broker.history_pids() if is_running(pid)]


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload.split()[0]) for payload in payloads]


def test_a_kill_of_the_history_process_costs_a_reader_nothing(broker: Broker, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    broker.environment["TMPDIR"] = str(scratch)
    fill(broker.data)
    broker.start()
    with FlightHistory(broker.endpoint) as history:
        [part] = history.parts()
        got: list[int] = []
        for batch in history.batches(part, (), ("payload",)):
            got += numbers(batch.column("payload").to_pylist())
            if len(broker.history_pids()) == 1:
                os.kill(broker.history_pids()[0], signal.SIGKILL)
                until(lambda: len(broker.history_pids()) == 2, "it is started again")
        assert got == list(range(NUMBERED))
        assert len(broker.history_pids()) == 2
        assert len(list(scratch.glob("holdfast-*"))) == 1  # nothing is left of the one that was killed
        history.refresh()
        assert history.parts() == [part]
    broker.publish("t", [b"the broker has not noticed"])


def test_a_kill_of_the_history_process_costs_an_audit_nothing(broker: Broker) -> None:
    """Of payloads it has checksums alone, so what is large here are topics."""
    fill(broker.data, b"t" * _SIZE_BYTES, 10)
    broker.start()
    with FlightHistory(broker.endpoint) as history:
        [part] = history.parts()
        query = StoredQuery(part, checksums=True)
        got: list[dict[str, Any]] = []
        for batch in history.audit(query):
            got += batch.to_pylist()
            if len(broker.history_pids()) == 1:
                os.kill(broker.history_pids()[0], signal.SIGKILL)
                until(lambda: len(broker.history_pids()) == 2, "it is started again")
        assert len(broker.history_pids()) == 2
    with HistoryReader.open(broker.data) as reader:
        assert got == [row for batch in audit_batches(reader, query) for row in batch.to_pylist()]
    assert [row["serial"] for row in got] == list(range(1, NUMBERED + 1))


def test_a_kill_of_the_broker_ends_the_history_process_and_a_start_brings_it_back(
    broker: Broker, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    broker.environment["TMPDIR"] = str(scratch)
    broker.start()
    broker.publish("a", [b"%d" % number for number in range(200)])
    with FlightHistory(broker.endpoint) as history:
        [part] = history.parts()
        pid = broker.history_pids()[-1]
        broker.end(signal.SIGKILL)
        until(lambda: not is_running(pid), "it ends with the broker")
        assert not list(scratch.glob("holdfast-*"))
        broker.start()
        broker.publish("a", [b"%d" % number for number in range(200, 300)])
        history.refresh()
        got = [value for one in history.parts() for batch in history.batches(one) for value in batch["payload"]]
        assert sorted(numbers([value.as_py() for value in got])) == list(range(300))
        assert sum(batch.num_rows for batch in history.batches(part)) == 200


def test_a_broker_that_is_killed_and_started_under_a_reader(tmp_path: Path) -> None:
    """The history process runs alone: it follows one life of the broker after the other."""
    broker = Broker(tmp_path, history=False)
    port = free_port()
    alone = Program(tmp_path / "history.log", "history", "--data", str(broker.data), "--flight-port", str(port))
    alone._arguments += ("--http-port", "0")
    broker.start()
    broker.publish("a", [b"0"])
    alone.start()
    sent = 1
    try:
        with FlightHistory(f"grpc://127.0.0.1:{port}") as history:
            for _life in range(2):
                broker.publish("a", [b"%d" % number for number in range(sent, sent + 100)])
                sent += 100
                history.refresh()
                streams = [history.batches(part, (), ("payload",)) for part in history.parts()]
                broker.end(signal.SIGKILL)
                got = [value for stream in streams for batch in stream for value in batch["payload"].to_pylist()]
                assert sorted(numbers(got)) == list(range(sent))
                broker.start()
        assert alone.end() == 0
    finally:
        for program in (broker, alone):
            if program.process is not None:
                program.end(signal.SIGKILL)


def test_a_lease_keeps_what_retention_would_drop_until_it_is_read(tmp_path: Path) -> None:
    """Generations of a second that are kept for a second, and a reader that is slower than that."""
    broker = Broker(tmp_path, "storage.generation_s=1", "storage.retention_s=1")
    broker.start()
    try:
        with FlightHistory(broker.endpoint) as history:
            history.renew("reader", {0: 0})
            sent = 0
            while len(broker.said("generation begins")) < 3:
                broker.publish(f"a/{sent % 7}", [b"%d" % (sent + number) for number in range(20)])
                sent += 20
            got: list[int] = []
            done_us = 0
            while len(got) < sent:
                history.refresh()
                # A step at a time, so that retention follows.
                parts = history.shard_parts(0, done_us + 1, history.heads()[0].position_us + 1)
                assert history.lost(0, done_us + 1, 2**62) is None
                for batch in history.batches(parts[0], (), ("offset", "payload")):
                    got += numbers(batch["payload"].to_pylist())
                    done_us = batch["offset"][-1].as_py()
                history.renew("reader", {0: done_us})
            assert got == list(range(sent))
            assert history.release("reader")
            until(lambda: len(broker.said("generation dropped")) >= 3, "retention goes on without the lease")
            history.refresh()
            assert min(record.number for record in history.generations("default")) > 3
            assert history.lost(0, 1, 2**62) is not None
    finally:
        broker.end(signal.SIGKILL)


def test_tokens_and_tls_beyond_loopback(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server_files("history")
    token = add_token(tmp_path / "tokens", "spark")
    fill_small(tmp_path / "data")
    flight_port, http_port = free_port(), free_port()
    arguments = ["history", "--data", str(tmp_path / "data"), "--token-file", str(tmp_path / "tokens")]
    arguments += ["--flight-port", str(flight_port), "--http-port", str(http_port)]
    arguments += [word for key, path in files.items() for word in ("--set", f"history.{key}={path}")]
    alone = Program(tmp_path / "history.log", *arguments)
    alone.start()
    try:
        ca = authority.file.read_bytes()
        with FlightHistory(f"grpcs://localhost:{flight_port}", token, ca) as history:
            assert sum(head.serial for head in history.heads().values()) == 20
        stranger = FlightHistory(f"grpcs://localhost:{flight_port}", "hft_wrong", ca)
        with stranger, pytest.raises(PermanentError, match="the token is not known"):
            stranger.heads()
        client = http.client.HTTPSConnection(
            "localhost", http_port, context=ssl.create_default_context(cafile=str(authority.file))
        )
        client.request("GET", "/history?filter=plant/%2B/temp", headers={"Authorization": f"Bearer {token}"})
        response = client.getresponse()
        assert response.status == 200
        assert all(json.loads(line)["topic"].endswith("/temp") for line in response.read().splitlines())
        client.close()
        assert alone.end() == 0
        assert token not in (tmp_path / "history.log").read_text()
    finally:
        if alone.process is not None:
            alone.end(signal.SIGKILL)


def fill_small(folder: Path) -> None:
    node = Node(folder, ManualClock(wall_us=1_700_000_000_000_000))
    node.fill(1)
    node.log.close()
