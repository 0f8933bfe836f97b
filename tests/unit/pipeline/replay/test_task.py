"""One connection of a replay, with a clock that is turned by hand and a client that is looked at."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.client.blocking_client import BlockingClient
from holdfast.client.errors import LostError
from holdfast.client.message import OutgoingMessage
from holdfast.model.errors import PermanentError
from holdfast.model.protocol import CLIENT, PUBLISH
from holdfast.pipeline.replay.rows import MessageCopier, ReplayRow, read_rows
from holdfast.pipeline.replay.schedule import ReplaySchedule, ReplayStart, number_of
from holdfast.pipeline.replay.state import NOTHING, ConnectionProgress, read_note
from holdfast.pipeline.replay.task import ReplayConnection, ReplayTask
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.wire.primitives import ByteReader, encode_varint
from holdfast.wire.properties import Properties, decode_properties, encode_property_list

START_US = 1_000_000


def row(offset_us: int, payload: bytes = b"x", *, shard: int = 0, properties: bytes = b"") -> ReplayRow:
    return ReplayRow(offset_us, shard, number_of(offset_us, shard), b"a/b", b"device", payload, properties)


def properties_of(message: OutgoingMessage) -> Properties:
    listed = encode_varint(len(message.properties)) + message.properties
    return decode_properties(ByteReader(listed, 0, len(listed)), PUBLISH, CLIENT)


class Stage:
    """A client and a clock. What was sent is settled when the client is flushed or has settled."""

    def __init__(self) -> None:
        self.now_us = START_US
        #: When each message was sent, by the clock, and what it was.
        self.sent: list[tuple[int, bytes]] = []
        self.settled = 0
        self.pings = 0
        self.breaks_at = -1

    def send(self, message: OutgoingMessage, source_offset: bytes = b"") -> None:
        if len(self.sent) == self.breaks_at:
            raise LostError("gone")
        self.sent.append((self.now_us, message.payload))

    def flush(self) -> None:
        self.settled = len(self.sent)

    def ping(self) -> None:
        self.pings += 1

    settle = flush

    def close(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        self.now_us += round(seconds * 1_000_000)


class StagedClient(BlockingClient):
    """Looks like one."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.send = stage.send  # type: ignore[method-assign]
        self.flush = stage.flush  # type: ignore[method-assign]
        self.ping = stage.ping  # type: ignore[method-assign]
        self.settle = stage.settle  # type: ignore[method-assign]
        self.close = stage.close  # type: ignore[method-assign]

    @property
    def settled(self) -> int:
        return self._stage.settled


def connection(
    stage: Stage, folder: Path, speed: str | None = None, note: ConnectionProgress = NOTHING
) -> ReplayConnection:
    schedule = None if speed is None else ReplaySchedule(ReplayStart(START_US, 500), Fraction(speed))
    task = ReplayTask("abc", WriteOptions("h", 1), "re/", (note,), str(folder), None, None)
    return ReplayConnection(
        task, 0, schedule, now_us=lambda: stage.now_us, sleep=stage.sleep, client=StagedClient(stage)
    )


def test_each_message_leaves_when_it_is_due(tmp_path: Path) -> None:
    stage = Stage()
    copier = connection(stage, tmp_path, "2")

    copier.run(iter([row(500, b"1"), row(2_000_500, b"2"), row(2_000_600, b"3"), row(6_000_500, b"4")]))

    assert stage.sent == [
        (START_US, b"1"),
        (START_US + 1_000_000, b"2"),
        (START_US + 1_000_000, b"3"),
        (START_US + 3_000_000, b"4"),
    ]
    assert copier.late_us == 0
    assert copier.sent == 4


def test_what_is_late_is_sent_at_once_and_being_late_does_not_add_up(tmp_path: Path) -> None:
    stage = Stage()
    stage.now_us += 1_500_000
    copier = connection(stage, tmp_path, "1")

    copier.run(iter([row(500, b"1"), row(1_000_500, b"2"), row(2_000_500, b"3")]))

    assert [at_us - START_US for at_us, _payload in stage.sent] == [1_500_000, 1_500_000, 2_000_000]
    assert copier.late_us == 1_500_000


def test_a_long_rest_keeps_the_connection(tmp_path: Path) -> None:
    stage = Stage()
    connection(stage, tmp_path, "1").run(iter([row(500), row(1_000_000_500)]))

    assert stage.sent[1][0] == START_US + 1_000_000_000
    assert stage.pings == 3


def test_a_note_tells_what_is_acknowledged_and_no_more(tmp_path: Path) -> None:
    stage = Stage()
    stage.breaks_at = 3
    copier = connection(stage, tmp_path, "1", ConnectionProgress(7, 10, 100))

    with pytest.raises(LostError):
        # Two are flushed in the rest before the third, which is sent and not acknowledged.
        copier.run(iter([row(500), row(600), row(9_000_500, b"long"), row(9_000_600)]))

    assert read_note(tmp_path, 0) == copier.note == ConnectionProgress(number_of(600, 0), 12, 100 + 2 * len("re/a/bx"))


def test_everything_is_noted_at_the_end_and_a_folder_that_is_not_there_does_no_harm(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        stage = Stage()
        copier = connection(stage, folder)
        copier.run(iter([row(500), row(600)]))
        assert copier.note == ConnectionProgress(number_of(600, 0), 2, 14)
    assert read_note(tmp_path, 0) == ConnectionProgress(number_of(600, 0), 2, 14)


def batch(*found: ReplayRow) -> object:
    columns: Sequence[tuple[str, pa.DataType, list[object]]] = [
        ("offset", pa.int64(), [one.offset_us for one in found]),
        ("shard", pa.int32(), [one.shard for one in found]),
        ("topic", pa.string(), [one.topic.decode() for one in found]),
        ("client_id", pa.string(), [one.client_id.decode() for one in found]),
        ("payload", pa.binary(), [one.payload for one in found]),
        ("properties", pa.binary(), [one.properties for one in found]),
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind) for _name, kind, values in columns], names=[name for name, _kind, _values in columns]
    )


def test_rows_that_were_replayed_are_left_out() -> None:
    found = [row(500), row(500, shard=1), row(600), row(700)]

    assert list(read_rows(iter([batch(*found[:2]), batch(*found[2:])]), number_of(500, 1))) == found[2:]


def test_a_copy_is_the_message_with_its_time_and_origin_behind_its_properties() -> None:
    before = encode_property_list(
        Properties(
            payload_format_indicator=1,
            message_expiry_interval=60,
            content_type="text/plain",
            user_properties=(("unit", "C"), ("publish-number", "17"), ("unit", "F")),
        ),
        PUBLISH,
    )
    schedule = ReplaySchedule(ReplayStart(START_US, 500), Fraction(2))
    made = MessageCopier("re/", 2).message(row(700, b"21.5", shard=3, properties=before), schedule)

    assert (made.first, made.topic, made.payload) == (0x34, b"re/a/b", b"21.5")
    assert properties_of(made) == Properties(
        payload_format_indicator=1,
        message_expiry_interval=60,
        content_type="text/plain",
        user_properties=(
            ("unit", "C"),
            ("unit", "F"),
            ("ts", "700"),
            ("offset", "3:700"),
            ("client-id", "device"),
            ("due", str(START_US + 100)),
            ("publish-number", str(number_of(700, 3))),
        ),
    )
    plain = properties_of(MessageCopier("", 1).message(row(700), None))
    assert [name for name, _text in plain.user_properties] == ["ts", "offset", "client-id", "publish-number"]


def test_a_prefix_that_makes_a_topic_too_long_is_told() -> None:
    long = row(700)._replace(topic=b"t" * 65_530)
    with pytest.raises(PermanentError, match="with its prefix, a topic has 65537 bytes"):
        MessageCopier("prefix/", 1).message(long, None)
