"""The answers to an audit hold little memory, whatever messages and topics are like, and show nothing of payloads that
were erased.
"""

import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from holdfast.history.audit.queries import AuditQuery, StoredQuery, TopicsQuery, audit_batches, audit_steps
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.record_replay import PAGE_BYTES
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.storage.rocks.log.erasure_file import erase
from tests.unit.storage.rocks.log_node import Node

MB = 2**20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
    yield node
    node.log.close()


def publish(node: Node, topic: bytes, payloads: list[bytes], client_id: str = "c1", *, each: int = 1000) -> None:
    for begin in range(0, len(payloads), each):
        node.clock.advance(1_000)
        now_us = node.clock.wall_us()
        messages = [Message(topic, payload, 1, ClientId(client_id), now_us) for payload in payloads[begin:][:each]]
        node.taken(node.log.write(node.batch(messages)))
    node.settle()


def answer_peak_bytes(reader: HistoryReader, query: AuditQuery) -> tuple[int, int]:
    """How many rows it gives, and the most memory that it takes meanwhile."""
    tracemalloc.start()
    try:
        count = sum(batch.num_rows for batch in audit_batches(reader, query))
        return count, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_large_messages_are_read_a_page_at_a_time(node: Node) -> None:
    """They follow small ones, by which no size of theirs could be told."""
    random = Random(1)
    publish(node, b"plant/1", [b"small"] * 1000)
    publish(node, b"plant/1", [random.randbytes(MB) for _index in range(200)], each=10)
    with HistoryReader.open(node.folder) as reader:
        [part] = reader.parts()
        count, peak_bytes = answer_peak_bytes(reader, StoredQuery(part, checksums=True))
    assert count == 1200
    # A page as values, joined, and as columns while these are made.
    assert peak_bytes < 5 * PAGE_BYTES


def test_a_topic_of_many_messages_is_counted_and_not_kept(node: Node) -> None:
    publish(node, b"plant/1", [b""] * 200_000, each=10_000)
    with HistoryReader.open(node.folder) as reader:
        [part] = reader.parts()
        query = TopicsQuery(part, ("plant/1", "plant/2"))
        count, peak_bytes = answer_peak_bytes(reader, query)
        assert count == 2
        [batch] = audit_batches(reader, query)
    assert batch.to_pylist() == [
        {"found": 200_000, "found_serials": 200_000 * 200_001 // 2},
        {"found": 0, "found_serials": 0},
    ]
    # As a list of numbers they take 8 MB.
    assert peak_bytes < 5 * MB


def test_others_have_a_turn_while_topics_are_counted(node: Node) -> None:
    """A client that has left is noticed there."""
    publish(node, b"plant/1", [b""] * 40_000, each=10_000)
    with HistoryReader.open(node.folder) as reader:
        [part] = reader.parts()
        steps = list(audit_steps(reader, TopicsQuery(part, ("plant/1", "no/such/topic"))))
    assert steps.count(None) > 2
    assert sum(step.num_rows for step in steps if step is not None) == 2


def test_what_was_erased_has_no_checksum(node: Node) -> None:
    """That of a short payload tells the payload."""
    publish(node, b"door/7", [b"open"], "alice")
    publish(node, b"door/7", [b"shut"], "bob")
    with HistoryReader.open(node.folder) as reader:
        [part] = reader.parts()
        up_to = {shard: head.position_us for shard, head in reader.heads().items()}
        erase(node.folder, client="alice", up_to=up_to, now_us=1, made_by="test")
        [batch] = audit_batches(reader, StoredQuery(part, checksums=True))
    assert [(row["serial"], row["erased"], row["checksum"]) for row in batch.to_pylist()] == [
        (1, True, None),
        (2, False, zlib.crc32(b"shut")),
    ]
