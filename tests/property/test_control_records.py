"""Records of the control log: read as they were written; damage and foreign records are told apart."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.control import (
    MODES,
    Beat,
    ControlItem,
    ControlRecord,
    Fence,
    Found,
    Join,
    Leave,
    Snapshot,
    VnodeProgress,
    decode_control,
    decode_control_item,
    encode_control,
)
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem
from tests.property.cluster_records import CLUSTER, blobs, i64, names, u16, u32, u64, vnode_settings
from tests.property.test_cluster_records import IDENTITY

pytestmark = pytest.mark.compiled

ids = st.binary(min_size=16, max_size=16)
positive = st.integers(1, 2**64 - 1)
places = st.lists(st.tuples(u16, i64), max_size=3).map(tuple)
founding: st.SearchStrategy[ControlItem] = st.one_of(
    st.builds(Found, names, st.lists(vnode_settings, max_size=2).map(tuple)),
    st.builds(
        Join,
        names,
        ids,
        ids,
        u64,
        u16,
        st.sampled_from(MODES),
        st.lists(st.tuples(names, names), max_size=2).map(tuple),
    ),
)
numbered: st.SearchStrategy[ControlItem] = st.one_of(
    st.builds(
        Beat,
        st.lists(st.builds(VnodeProgress, u16, u64, u64, u64, ids), max_size=3).map(tuple),
        u32,
        u32,
        st.booleans(),
    ),
    st.builds(Fence, u32, u64, u64),
    st.just(Leave()),
    st.builds(Snapshot, u64, ids, st.lists(st.tuples(blobs, blobs), max_size=3).map(tuple)),
    st.builds(LeaseItem, names, i64, places),
    st.builds(ErasureItem, names, blobs, places, i64, names),
)
records = st.one_of(
    st.builds(ControlRecord, st.just(CLUSTER), u32, st.just(0), st.just(0), i64, founding),
    st.builds(ControlRecord, st.just(CLUSTER), u32, positive, positive, i64, numbered),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: ControlRecord) -> None:
    value = encode_control(record)
    read = decode_control(value, CLUSTER)
    assert read == record
    assert read is not None
    assert encode_control(read) == value


@given(records)
def test_a_record_of_another_cluster_is_no_record_of_ours(record: ControlRecord) -> None:
    assert decode_control(encode_control(record), bytes(range(1, 17))) is None


@given(st.integers(0x58, 0x68), st.binary(max_size=60))
def test_the_bytes_of_an_item_are_refused_or_read(kind: int, rest: bytes) -> None:
    """Anything but PermanentError fails the test."""
    with suppress(PermanentError):
        decode_control_item(kind, b"\x01" + rest)


@given(records, st.data())
def test_any_flipped_bit_is_noticed(record: ControlRecord, data: st.DataObject) -> None:
    value = encode_control(record)
    at = data.draw(st.integers(0, len(value) - 1))
    flipped = bytes((value[at] ^ 1 << data.draw(st.integers(0, 7)),))
    damaged = value[:at] + flipped + value[at + 1 :]
    if at in IDENTITY:
        assert decode_control(damaged, CLUSTER) is None
    else:
        with pytest.raises(PermanentError):
            decode_control(damaged, CLUSTER)
