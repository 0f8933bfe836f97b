"""Golden bytes of records of a cluster, of every item and session step in them, and of the rows of a vnode."""

from dataclasses import replace

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.cluster import rows, vnode_keys
from holdfast.records.cluster.group_packs import (
    GroupPack,
    GroupReport,
    decode_group_packet,
    encode_pack,
    encode_report,
)
from holdfast.records.cluster.item_codec import decode_item, encode_item
from holdfast.records.cluster.items import Item
from holdfast.records.cluster.record import LEVEL, decode_record, encode_record, revision_of
from holdfast.records.cluster.session_steps import STEPS, StepItem
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.fields import u32
from tests.formats import golden_cluster as golden
from tests.formats.golden_records import T, spaced

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(("item", "value"), golden.ITEMS.values(), ids=golden.ITEMS)
def test_an_item_is_written_and_read_as_its_golden_bytes(item: Item, value: str) -> None:
    expected = spaced(value)
    assert encode_item(item).hex(" ") == expected.hex(" ")
    assert decode_item(expected[0], expected[5:]) == item
    for length in range(5, len(expected)):
        with pytest.raises(PermanentError):
            decode_item(expected[0], expected[5:length])


@pytest.mark.parametrize(("step", "value"), golden.STEPS.values(), ids=golden.STEPS)
def test_a_session_step_is_written_and_read_as_its_golden_bytes(step: StepItem, value: str) -> None:
    body = spaced(value)
    assert encode_item(step).hex(" ") == (b"\x02" + u32(len(body)) + body).hex(" ")
    assert decode_item(0x02, body) == step


def test_there_are_golden_bytes_of_every_kind_of_item_and_of_every_step() -> None:
    kinds = {spaced(value)[0] for _item, value in golden.ITEMS.values()} | {0x02}
    unknown = []
    for kind in range(256):
        try:
            decode_item(kind, b"\x01")
        except PermanentError as refused:
            if "unknown kind" in str(refused):
                unknown.append(kind)
    assert kinds == set(range(256)) - set(unknown)
    assert {step.step for step, _value in golden.STEPS.values()} == set(STEPS)


def test_a_record_is_written_and_read_as_its_golden_bytes() -> None:
    value = golden.RECORD_BYTES + spaced(golden.RECORD_CHECK)
    assert encode_record(golden.RECORD).hex(" ") == value.hex(" ")
    read = decode_record(value, golden.CLUSTER)
    assert read == golden.RECORD
    assert read is not None
    assert u32(read.checksum) == spaced(golden.RECORD_CHECK)


def test_a_later_format_and_a_later_level_of_ours_are_refused_by_name() -> None:
    later = golden.RECORD_BYTES[:4] + b"\x02" + golden.RECORD_BYTES[5:]
    with pytest.raises(PermanentError, match="version 2"):
        decode_record(later + spaced(golden.RECORD_CHECK), golden.CLUSTER)
    record = golden.RECORD
    level = type(record)(golden.CLUSTER, 2, 9, 1, 0, 0, [], [], level=LEVEL + 1)
    with pytest.raises(PermanentError, match=f"level {LEVEL + 1}"):
        decode_record(encode_record(level), golden.CLUSTER)


def test_a_revision_is_a_sequence_and_an_index() -> None:
    assert revision_of(1, 0) == 0x10000
    assert revision_of(0x0102, 0xFFFF) == 0x0102FFFF


SMALL = VnodeSettings((VnodeZone("d", 2, "l", {}),))
ROWS: dict[str, tuple[bytes, bytes, object]] = {
    "applied": (
        rows.APPLIED_KEY,
        rows.encode_applied_row(rows.AppliedRow(258, 0xDEADBEEF, bytes(range(16)))),
        rows.decode_applied_row,
    ),
    "clock": (
        rows.CLOCK_KEY,
        rows.encode_clock(rows.ClockRow(T, T + 1, 2, T + 2, T + 3, T + 4)),
        rows.decode_clock,
    ),
    "clock in doubt": (
        rows.CLOCK_KEY,
        rows.encode_clock(rows.ClockRow(T, T + 1, 2, T + 2, T + 3, T + 4, T - 5, ((T - 8, T - 7), (T - 6, T - 5)))),
        rows.decode_clock,
    ),
    "writer": (rows.writer_key(2), rows.encode_writer(9, 258), rows.decode_writer),
    "closed": (rows.closed_key(2, 9), rows.encode_closed(T), rows.decode_closed),
    "leader": (rows.LEADER_KEY, rows.encode_leader(rows.LeaderRow(2, 9, 0x10000, T)), rows.decode_leader),
    "holders": (rows.HOLDERS_KEY, rows.encode_holders(9, (1, 3)), rows.decode_holders),
    "settings": (rows.SETTINGS_KEY, rows.encode_settings_row(9, SMALL), rows.decode_settings_row),
    "level": (rows.LEVEL_KEY, rows.encode_level(2), rows.decode_level),
    "registration": (
        rows.registration_key("\u00fc"),
        rows.encode_registration(rows.RegistrationRow(2, 9, 3, 0x10000, (0x0102, 2, 5), T)),
        rows.decode_registration,
    ),
    "assignment": (
        rows.assignment_key("g", 258, T),
        rows.encode_assignment(rows.AssignmentRow("c", 0x10000, 0x20000)),
        rows.decode_assignment,
    ),
    "group progress": (
        rows.group_progress_key("g"),
        rows.encode_group_progress({258: T}),
        rows.decode_group_progress,
    ),
    "incarnation": (rows.INCARNATION_KEY, rows.encode_incarnation("\u00fc"), rows.decode_incarnation),
    "newest version": (
        rows.NEWEST_VERSION_KEY,
        rows.encode_newest_version((0x018BCFE56800, 2, 0x10000001F)),
        rows.decode_newest_version,
    ),
}
READ: dict[str, object] = {
    "applied": rows.AppliedRow(258, 0xDEADBEEF, bytes(range(16))),
    "clock": rows.ClockRow(T, T + 1, 2, T + 2, T + 3, T + 4),
    "clock in doubt": rows.ClockRow(T, T + 1, 2, T + 2, T + 3, T + 4, T - 5, ((T - 8, T - 7), (T - 6, T - 5))),
    "writer": (9, 258),
    "closed": T,
    "leader": rows.LeaderRow(2, 9, 0x10000, T),
    "holders": (9, (1, 3)),
    "settings": (9, SMALL),
    "level": 2,
    "registration": rows.RegistrationRow(2, 9, 3, 0x10000, (0x0102, 2, 5), T),
    "assignment": rows.AssignmentRow("c", 0x10000, 0x20000),
    "group progress": {258: T},
    "incarnation": "\u00fc",
    "newest version": (0x018BCFE56800, 2, 0x10000001F),
}


@pytest.mark.parametrize("name", golden.ROWS)
def test_a_row_is_written_and_read_as_its_golden_bytes(name: str) -> None:
    key, value = (spaced(part) for part in golden.ROWS[name])
    written_key, written, decode = ROWS[name]
    assert (written_key.hex(" "), written.hex(" ")) == (key.hex(" "), value.hex(" "))
    assert callable(decode)
    assert decode(value) == READ[name]
    for length in range(len(value)):
        with pytest.raises(PermanentError):
            decode(value[:length])


def test_closings_of_a_node_are_found_in_their_order() -> None:
    lo, hi = rows.closed_above(2, 8)
    assert [before for before in (1, 8, 9, 2**64 - 1) if lo <= rows.closed_key(2, before) < hi] == [9, 2**64 - 1]
    assert not lo <= rows.closed_key(3, 0) < hi
    assert rows.node_of_writer(rows.writer_key(258)) == 258
    assert rows.session_of_registration(rows.registration_key("\u00fc")) == "\u00fc"


def test_keys_of_tables_begin_with_their_golden_bytes() -> None:
    numbers = (vnode_keys.STATE, vnode_keys.META, vnode_keys.RETAINED, vnode_keys.SESSIONS)
    lo, hi = vnode_keys.vnode_range(258)
    for number, value in zip(numbers, golden.TABLES.values(), strict=True):
        prefix = vnode_keys.table_prefix(258, number)
        assert prefix.hex(" ") == spaced(value).hex(" ")
        assert lo < prefix < hi
        assert vnode_keys.split_key(prefix + b"\x01x") == (258, number, b"\x01x")
    assert not any(lo <= vnode_keys.table_prefix(other, 1) < hi for other in (257, 259))
    for wrong in (b"", b"\x01\x02\x01", b"\x01\x02\x00a", b"\x01\x02\x05a"):
        with pytest.raises(PermanentError):
            vnode_keys.split_key(wrong)


def test_the_vnode_of_a_session_never_changes() -> None:
    ids = ["", "c", "device-17", "tenant\0device", "ü", "\0group\0$share/g/a/#"]
    assert [vnode_keys.vnode_of(session_id, 4) for session_id in ids] == [0, 3, 0, 1, 1, 3]
    assert {vnode_keys.vnode_of(session_id, 1) for session_id in ids} == {0}


@pytest.mark.parametrize(
    ("packet", "value"),
    [
        pytest.param(golden.REPORT, golden.REPORT_BYTES, id="report"),
        pytest.param(golden.PACK, golden.PACK_BYTES, id="pack"),
    ],
)
def test_a_packet_about_groups_is_written_and_read_as_its_golden_bytes(
    packet: GroupReport | GroupPack, value: bytes
) -> None:
    encoded = encode_report(packet) if isinstance(packet, GroupReport) else encode_pack(packet)
    assert encoded.hex(" ") == value.hex(" ")
    read = decode_group_packet(value)
    assert repr(read) == repr(packet)
    for length in range(len(value)):
        with pytest.raises(PermanentError):
            decode_group_packet(value[:length])
    with pytest.raises(PermanentError, match="unknown kind 3"):
        decode_group_packet(value[:1] + b"\x03" + value[2:])
    with pytest.raises(PermanentError, match="version 3"):
        decode_group_packet(b"\x03" + value[1:])


def test_a_packet_about_groups_of_version_1_is_read_as_one_without_questions() -> None:
    assert repr(decode_group_packet(golden.PACK_BYTES_V1)) == repr(replace(golden.PACK, confirmed=()))


def test_keys_of_assignments_and_of_groups_can_be_read_back() -> None:
    group = "\0group\0$share/g/\u00fc"
    key = rows.assignment_key(group, 3, T)
    assert rows.assigned_place(key) == (group, (3, T))
    lo, hi = rows.assignments()
    assert lo <= key < hi
    progress = rows.group_progress_key(group)
    assert rows.group_of_progress(progress) == group
    lo, hi = rows.groups_progress()
    assert lo <= progress < hi
