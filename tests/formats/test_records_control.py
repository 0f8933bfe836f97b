"""Golden bytes of records of the control log, of every item in them, and of the rows that a node keeps of it."""

import pytest

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cluster import control_rows as rows
from holdfast.records.cluster.control import (
    Beat,
    ControlItem,
    ControlRecord,
    Found,
    Join,
    decode_control,
    decode_control_item,
    encode_control,
    encode_control_item,
    read_founding,
    read_snapshot,
)
from holdfast.records.cluster.item_codec import decode_item
from holdfast.records.cluster.items import Tick
from holdfast.records.cluster.job_records import ErasureItem
from holdfast.records.cluster.record import LEVEL, ClusterRecord, decode_record, encode_record
from holdfast.records.fields import blob, u8, u32
from tests.formats import golden_cluster
from tests.formats import golden_control as golden
from tests.formats.golden_records import T, spaced

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(("item", "value"), golden.ITEMS.values(), ids=golden.ITEMS)
def test_an_item_is_written_and_read_as_its_golden_bytes(item: ControlItem, value: str) -> None:
    expected = spaced(value)
    kind, body = encode_control_item(item)
    assert (u8(kind) + blob(body)).hex(" ") == expected.hex(" ")
    assert decode_control_item(kind, expected[5:]) == item
    for length in range(5, len(expected)):
        with pytest.raises(PermanentError):
            decode_control_item(kind, expected[5:length])


@pytest.mark.parametrize(("item", "value"), golden.EARLIER_ITEMS.values(), ids=golden.EARLIER_ITEMS)
def test_an_item_of_an_earlier_version_is_still_read(item: ControlItem, value: str) -> None:
    expected = spaced(value)
    assert decode_control_item(expected[0], expected[5:]) == item
    for length in range(5, len(expected)):
        with pytest.raises(PermanentError):
            decode_control_item(expected[0], expected[5:length])


def test_there_are_golden_bytes_of_every_kind_and_no_item_of_a_vnode_has_one_of_them() -> None:
    kinds = {spaced(value)[0] for _item, value in golden.ITEMS.values()}
    unknown = []
    for kind in range(256):
        try:
            decode_control_item(kind, b"\x01")
        except PermanentError as refused:
            if "unknown kind" in str(refused):
                unknown.append(kind)
    assert kinds == set(range(256)) - set(unknown)
    for kind in kinds:
        with pytest.raises(PermanentError, match="unknown kind"):
            decode_item(kind, b"\x01")


def test_a_record_is_written_and_read_as_its_golden_bytes() -> None:
    value = golden.RECORD_BYTES + spaced(golden.RECORD_CHECK)
    assert encode_control(golden.RECORD).hex(" ") == value.hex(" ")
    read = decode_control(value, golden_cluster.CLUSTER)
    assert read == golden.RECORD
    assert read is not None
    assert u32(read.checksum) == spaced(golden.RECORD_CHECK)


def test_a_later_level_and_a_record_of_a_vnode_are_refused() -> None:
    later = ControlRecord(golden_cluster.CLUSTER, 2, 9, 1, 0, Beat(), level=LEVEL + 1)
    with pytest.raises(PermanentError, match=f"level {LEVEL + 1}"):
        decode_control(encode_control(later), golden_cluster.CLUSTER)
    of_a_vnode = encode_record(golden_cluster.RECORD)
    with pytest.raises(PermanentError, match="of a vnode"):
        decode_control(of_a_vnode, golden_cluster.CLUSTER)
    tick = encode_record(ClusterRecord(golden_cluster.CLUSTER, 2, 9, 1, 0, 0, [], [Tick()]))
    with pytest.raises(PermanentError, match="unknown kind 23"):
        decode_control(tick, golden_cluster.CLUSTER)
    with pytest.raises(PermanentError, match="unknown kind 64"):
        decode_record(encode_control(golden.RECORD), golden_cluster.CLUSTER)


@pytest.mark.parametrize(
    ("item", "epoch", "number"),
    [
        (golden.FOUNDING, 1, 0),
        (golden.FOUNDING, 0, 1),
        (golden.JOINING, 1, 0),
        (golden.JOINING, 0, 1),
        (golden.BEATING, 0, 1),
        (golden.BEATING, 1, 0),
    ],
)
def test_only_founding_and_joining_have_no_epoch(item: ControlItem, epoch: int, number: int) -> None:
    with pytest.raises(MisuseError):
        encode_control(ControlRecord(golden_cluster.CLUSTER, 2, epoch, number, T, item))


def test_the_founding_is_read_without_knowing_the_cluster() -> None:
    founding = ControlRecord(golden_cluster.CLUSTER, 0, 0, 0, T, golden.FOUNDING)
    assert read_founding(encode_control(founding)) == founding
    assert read_founding(encode_control(golden.RECORD)) is None
    assert read_founding(b"a foreign record") is None
    assert read_founding(encode_control(founding)[:10]) is None
    damaged = bytearray(encode_control(founding))
    damaged[70] ^= 1
    with pytest.raises(PermanentError):
        read_founding(bytes(damaged))


def test_a_snapshot_is_read_without_knowing_the_cluster() -> None:
    snapshot = ControlRecord(golden_cluster.CLUSTER, 2, 9, 1, T, golden.ITEMS["snapshot"][0])
    assert read_snapshot(encode_control(snapshot)) == snapshot
    assert read_snapshot(encode_control(golden.RECORD)) is None
    assert read_snapshot(b"a foreign record") is None


def test_ids_and_digests_have_sixteen_bytes() -> None:
    for item in (Join("a", b"short", golden.LIFE, 0), Join("a", golden.FOLDER, bytes(17), 0)):
        with pytest.raises(MisuseError):
            encode_control_item(item)
    assert isinstance(golden.ITEMS["found"][0], Found)


def test_rows_are_written_and_read_as_their_golden_bytes() -> None:
    assert rows.FOUNDED_KEY.hex() == "20"
    assert rows.member_key(258).hex(" ") == "21 00 00 01 02"
    assert rows.beat_key(258).hex(" ") == "22 00 00 01 02"
    assert rows.node_of_member(rows.member_key(258)) == 258
    lo, hi = rows.members_range()
    assert lo <= rows.member_key(0) < rows.member_key(2**32 - 1) < hi <= rows.beat_key(0)
    assert rows.encode_founded(golden.FOUNDED_ROW).hex(" ") == spaced(golden.FOUNDED_BYTES).hex(" ")
    assert rows.decode_founded(spaced(golden.FOUNDED_BYTES)) == golden.FOUNDED_ROW
    assert rows.encode_member(golden.MEMBER_ROW).hex(" ") == spaced(golden.MEMBER_BYTES).hex(" ")
    assert rows.decode_member(spaced(golden.MEMBER_BYTES)) == golden.MEMBER_ROW
    assert rows.encode_beat_row(golden.BEAT_ROW).hex(" ") == spaced(golden.BEAT_BYTES).hex(" ")
    assert rows.decode_beat_row(spaced(golden.BEAT_BYTES)) == golden.BEAT_ROW
    assert rows.SNAPSHOT_KEY.hex() == "23"
    assert rows.encode_snapshot_row(258).hex(" ") == "01 02 01 00 00 00 00 00 00"
    assert rows.decode_snapshot_row(rows.encode_snapshot_row(258)) == 258
    assert rows.JOBS_KEY.hex() == "24"
    assert rows.encode_jobs_row(258).hex(" ") == "01 02 01 00 00 00 00 00 00"
    assert rows.decode_jobs_row(rows.encode_jobs_row(258)) == 258
    assert rows.lease_key("l").hex(" ") == "25 6c"
    assert rows.erasure_key(golden.ERASED).hex(" ") == "26 00 63"
    assert rows.erasure_key(ErasureItem("", b"c", (), T, "")).hex(" ") == "26 01 63"
    assert rows.encode_lease_row(golden.LEASED).hex(" ") == spaced(golden.LEASE_BYTES).hex(" ")
    assert rows.decode_lease_row(spaced(golden.LEASE_BYTES)) == golden.LEASED
    assert rows.encode_erasure_row(golden.ERASED).hex(" ") == spaced(golden.ERASURE_BYTES).hex(" ")
    assert rows.decode_erasure_row(spaced(golden.ERASURE_BYTES)) == golden.ERASED


def test_a_member_is_closed_for_a_reason_or_lives() -> None:
    for wrong in (rows.MemberRow(9, golden.JOINING, 258, rows.LIVES), rows.MemberRow(9, golden.JOINING, 0, rows.LEFT)):
        with pytest.raises(PermanentError, match="cannot be"):
            rows.decode_member(rows.encode_member(wrong))
    lives = rows.MemberRow(9, golden.JOINING)
    assert (lives.lives, lives.closed_before) == (True, 9)
    assert (golden.MEMBER_ROW.lives, golden.MEMBER_ROW.closed_before) == (False, 258)
