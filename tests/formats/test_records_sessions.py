"""Golden bytes of sessions: records, subscriptions, progress, retained deliveries, QoS 2 slots, groups."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import ArchivedMessage, Message, archived_message
from holdfast.model.owed import Owed, OwedShared
from holdfast.records.session.assignments import assignments_key, decode_assignments, encode_assignments
from holdfast.records.session.groups import decode_group, encode_group, group_key, member_key
from holdfast.records.session.progress import (
    GroupProgressWriter,
    Progress,
    ProgressEntry,
    ProgressWriter,
    decode_progress,
    encode_progress,
)
from holdfast.records.session.retained_progress import decode_retained_progress, encode_retained_progress
from holdfast.records.session.session_keys import DONE, INCOMING, INFLIGHT, RELEASED, retained_progress_key, slot_key
from holdfast.records.session.session_record import SessionRecord, decode_session, encode_session
from holdfast.records.session.sessions import (
    InflightRecord,
    SlotRecord,
    StoredInflight,
    decode_slot,
    decode_subscription,
    encode_inflight,
    encode_slot,
    encode_subscription,
)
from holdfast.session.inflight import Window
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from tests.formats import golden_records as golden

pytestmark = pytest.mark.compiled

PROGRESSES = [
    pytest.param(golden.LOGGED, golden.LOGGED_BYTES, id="version 1"),
    pytest.param(golden.PROGRESS, golden.PROGRESS_BYTES, id="version 2"),
    pytest.param(golden.PROGRESS, golden.COMPACT_BYTES, id="version 3"),
    pytest.param(golden.SHAPES, golden.SHAPES_BYTES, id="version 3, every shape"),
]


@pytest.mark.parametrize(("progress", "value"), PROGRESSES)
def test_a_progress_is_read_from_its_golden_bytes(progress: Progress, value: bytes) -> None:
    read = decode_progress(value)
    assert (read.sent, read.unacknowledged, read.last_packet_id) == (
        progress.sent,
        progress.unacknowledged,
        progress.last_packet_id,
    )


@pytest.mark.parametrize(("progress", "value"), PROGRESSES[2:])
def test_a_progress_is_written_as_its_golden_bytes(progress: Progress, value: bytes) -> None:
    assert encode_progress(progress).hex(" ") == value.hex(" ")


def test_the_progress_of_a_group_is_as_its_golden_bytes() -> None:
    assert encode_progress(golden.SHARED).hex(" ") == golden.SHARED_BYTES.hex(" ")
    read, shared = decode_progress(golden.SHARED_BYTES), golden.SHARED
    assert (read.sent, read.unacknowledged, read.last_packet_id) == (shared.sent, [], 0)
    assert read.given_out is not None
    assert shared.given_out is not None
    assert (read.given_out.up_to, read.given_out.unacknowledged) == (
        shared.given_out.up_to,
        shared.given_out.unacknowledged,
    )


def test_a_group_without_open_messages_is_stored_as_a_session_is() -> None:
    """An earlier Holdfast reads it."""
    assert GroupProgressWriter({1: 258}).record() == encode_progress(Progress({1: 258}, [], 0))


def test_an_entry_of_an_unknown_shape_is_refused() -> None:
    for head in (0x40, 0x80):
        with pytest.raises(PermanentError, match=f"unknown shape {head}"):
            decode_progress(bytes((3, 0, 0, 0, 0, 1, 0, 0, 0, head, 0)))


SLOTS = [
    pytest.param(SlotRecord(RELEASED, 0x1234), "01 03 34 12", id="released"),
    pytest.param(SlotRecord(INCOMING, 7), "01 04 07 00", id="incoming"),
    pytest.param(SlotRecord(DONE, place=(2, 0x0102)), "01 06 02 00 02 01 00 00 00 00 00 00", id="done"),
]


@pytest.mark.parametrize(("slot", "value"), SLOTS)
def test_a_slot_is_written_and_read_as_its_golden_bytes(slot: SlotRecord, value: str) -> None:
    assert encode_slot(slot).hex(" ") == value
    read = decode_slot(bytes.fromhex(value))
    assert (read.kind, read.packet_id, read.place) == (slot.kind, slot.packet_id, slot.place)
    for length in range(len(bytes.fromhex(value))):
        with pytest.raises(PermanentError):
            decode_slot(bytes.fromhex(value)[:length])


def test_a_slot_of_a_message_in_flight_is_its_packet_id_and_the_message() -> None:
    message = Message(b"t", b"", 2, ClientId("p"), 0)
    message.shard, message.position_us = 1, 500
    record = InflightRecord(Owed(message, 2), 9)
    value = encode_slot(SlotRecord(INFLIGHT, 5, inflight=record))
    assert value == bytes.fromhex("01 02 05 00") + encode_inflight(record)
    read = decode_slot(value)
    assert read.packet_id == 5
    assert read.stored is not None
    assert (read.stored.order, read.stored.shard, read.stored.position_us) == (9, 1, 500)


def test_the_key_of_a_slot_ends_with_its_number() -> None:
    assert slot_key("ü", 258).hex(" ") == "01 00 02 c3 bc 09 00 00 01 02"


def test_a_slot_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(PermanentError, match="unknown kind 5"):
        decode_slot(bytes.fromhex("01 05 00 00"))


@pytest.mark.parametrize(
    ("record", "value"),
    [
        pytest.param(golden.UNOWNED, golden.UNOWNED_BYTES, id="version 1"),
        pytest.param(golden.OWNED, golden.OWNED_BYTES, id="version 2"),
        pytest.param(golden.ANONYMOUS, golden.ANONYMOUS_BYTES, id="version 2, without a user name"),
        pytest.param(golden.CLAIMED, golden.CLAIMED_BYTES, id="version 3"),
    ],
)
def test_a_session_is_written_and_read_as_its_golden_bytes(record: SessionRecord, value: bytes) -> None:
    assert encode_session(record).hex(" ") == value.hex(" ")
    assert decode_session(value) == record


def test_assignments_are_written_and_read_as_their_golden_bytes() -> None:
    assert encode_assignments(golden.ASSIGNMENTS).hex(" ") == golden.ASSIGNMENTS_BYTES.hex(" ")
    assert decode_assignments(golden.ASSIGNMENTS_BYTES) == golden.ASSIGNMENTS
    assert assignments_key("c", 3) == b"\x01\x00\x01c\x0c\x00\x03"
    assert [golden.ASSIGNMENTS.has(revision) for revision in (0x10001, 0x10002, 0x10003)] == [True, False, True]


def test_an_assigned_message_in_flight_names_its_assignment() -> None:
    message = Message(b"t", b"", 2, ClientId("c"), 0)
    message.shard, message.position_us = 3, 258
    owed = OwedShared(
        message, 2, identifiers=(7,), group="g", source=message, past=False, due_us=0, vnode=1, revision=0x10001
    )
    value = encode_inflight(InflightRecord(owed, 5))
    assert value.hex(" ") == (
        "02 01 00 01 00 01 00 00 00 00 00 "
        "05 00 00 00 00 00 00 00 00 03 00 02 01 00 00 00 00 00 00 01 00 07 00 00 00 01 00 67 01 00 00 00 74"
    )
    read = StoredInflight(value).owed(message)
    assert isinstance(read, OwedShared)
    assert (read.vnode, read.revision, read.group, read.identifiers) == (1, 0x10001, "g", (7,))


def test_a_message_of_a_lake_in_flight_is_kept_whole() -> None:
    message = archived_message(Message(b"t", b"p", 2, ClientId("c"), 9), 3, 258)
    value = encode_inflight(InflightRecord(Owed(message, 1, identifiers=(7,)), 5))
    assert value.hex(" ") == (
        "03 01 "
        "05 00 00 00 00 00 00 00 00 03 00 02 01 00 00 00 00 00 00 01 00 07 00 00 00 00 00 01 00 00 00 74 "
        "01 02 01 00 01 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
        "09 00 00 00 00 00 00 00 00 00 00 00 74 63 70"
    )
    stored = StoredInflight(value)
    assert (stored.qos, stored.order) == (1, 5)
    assert isinstance(stored.message, ArchivedMessage)
    read = stored.owed(stored.message)
    assert (read.message, read.qos, read.identifiers) == (message, 1, (7,))
    assert (read.message.shard, read.message.position_us) == (3, 258)
    assert encode_inflight(InflightRecord(read, 5)) == value


def test_the_progress_has_the_place_of_a_message_of_a_lake_as_that_of_a_qos_2_message() -> None:
    window = Window()
    window.admit(Owed(archived_message(Message(b"t", b"p", 1, ClientId("c"), 9), 3, 258), 1))
    hot = Message(b"t", b"p", 1, ClientId("c"), 9)
    hot.shard, hot.position_us = 3, 300
    window.admit(Owed(hot, 1))
    writer = ProgressWriter()
    window.write_entries(writer)
    value = writer.record({3: 300}, 2)
    assert value.hex(" ") == "03 02 00 01 00 03 00 2c 01 00 00 00 00 00 00 02 00 00 00 15 03 00 02 01 00 2a"
    entries = [ProgressEntry(1, 2, 3, 258), ProgressEntry(2, 1, 3, 300)]
    assert decode_progress(value).unacknowledged == entries


def test_a_walk_is_written_and_read_as_its_golden_bytes() -> None:
    for walk, value in ((golden.WALK, golden.WALK_BYTES), (golden.VERSIONED_WALK, golden.VERSIONED_WALK_BYTES)):
        assert encode_retained_progress(walk).hex(" ") == value.hex(" ")
        assert decode_retained_progress(value) == walk
    assert retained_progress_key("ü", b"a/#").hex(" ") == golden.WALK_KEY.hex(" ")


def test_a_subscription_is_written_and_read_as_its_golden_bytes_with_a_share_window_and_without() -> None:
    raw = golden.SUBSCRIPTION_FILTER
    plain = SubscriptionRecord(parse_filter(raw), 1, False, True, 0, 7, golden.T + 3)
    for record, value in (
        (plain, golden.SUBSCRIPTION_BYTES),
        (replace(plain, share_window=258), golden.WINDOW_BYTES),
        (replace(plain, since_heads={1: 258, 3: 5}), golden.HEADS_BYTES),
    ):
        assert encode_subscription(record).hex(" ") == value.hex(" ")
        assert decode_subscription(raw, value) == record


def test_a_group_is_written_and_read_as_its_golden_bytes() -> None:
    assert encode_group(golden.GROUP).hex(" ") == golden.GROUP_BYTES.hex(" ")
    assert decode_group(golden.GROUP_BYTES) == golden.GROUP
    assert group_key("ü").hex(" ") == golden.GROUP_KEY.hex(" ")
    assert member_key("ü", "m").hex(" ") == golden.MEMBER_KEY.hex(" ")


def _subscription(value: bytes) -> object:
    return decode_subscription(golden.SUBSCRIPTION_FILTER, value)


@pytest.mark.parametrize(
    ("decode", "value", "unknown"),
    [
        pytest.param(decode_progress, golden.LOGGED_BYTES, 5, id="progress, version 1"),
        pytest.param(decode_progress, golden.PROGRESS_BYTES, 5, id="progress, version 2"),
        pytest.param(decode_progress, golden.COMPACT_BYTES, 5, id="progress, version 3"),
        pytest.param(decode_progress, golden.SHAPES_BYTES, 5, id="progress, version 3, every shape"),
        pytest.param(decode_progress, golden.SHARED_BYTES, 5, id="progress, version 4"),
        pytest.param(decode_retained_progress, golden.WALK_BYTES, 3, id="retained delivery, version 1"),
        pytest.param(decode_retained_progress, golden.VERSIONED_WALK_BYTES, 3, id="retained delivery, version 2"),
        pytest.param(decode_group, golden.GROUP_BYTES, 2, id="group"),
        pytest.param(_subscription, golden.SUBSCRIPTION_BYTES, 4, id="subscription, version 1"),
        pytest.param(_subscription, golden.WINDOW_BYTES, 4, id="subscription, version 2"),
        pytest.param(_subscription, golden.HEADS_BYTES, 4, id="subscription, version 3"),
        pytest.param(decode_session, golden.UNOWNED_BYTES, 4, id="session, version 1"),
        pytest.param(decode_session, golden.OWNED_BYTES, 4, id="session, version 2"),
        pytest.param(decode_session, golden.CLAIMED_BYTES, 4, id="session, version 3"),
        pytest.param(decode_assignments, golden.ASSIGNMENTS_BYTES, 2, id="assignments"),
    ],
)
def test_what_is_cut_or_too_long_or_of_an_unknown_version_is_refused(
    decode: Callable[[bytes], object], value: bytes, unknown: int
) -> None:
    for length in range(len(value)):
        with pytest.raises(PermanentError):
            decode(value[:length])
    with pytest.raises(PermanentError, match="more"):
        decode(value + b"\x00")
    for version in (0, unknown):
        with pytest.raises(PermanentError, match=f"version {version},"):
            decode(bytes((version,)) + value[1:])
