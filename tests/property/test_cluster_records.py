"""Records of a cluster: read as they were written; damage, foreign records and later formats are told apart."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.item_codec import decode_item
from holdfast.records.cluster.record import (
    CLUSTER_ID_BYTES,
    MAGIC,
    ClusterRecord,
    decode_record,
    encode_record,
)
from tests.property.cluster_records import CLUSTER, cluster_records

pytestmark = pytest.mark.compiled

OTHER = bytes(range(1, 17))
#: Bytes of a record that tell whether it is of this cluster, without the one of its format.
IDENTITY = [*range(len(MAGIC)), *range(len(MAGIC) + 1, len(MAGIC) + 1 + CLUSTER_ID_BYTES)]


@given(cluster_records())
def test_a_record_is_read_as_it_was_written(record: ClusterRecord) -> None:
    value = encode_record(record)
    read = decode_record(value, CLUSTER)
    assert read == record
    assert read is not None
    assert encode_record(read) == value


@given(st.binary(max_size=200))
def test_bytes_without_the_magic_are_of_no_record_of_ours(value: bytes) -> None:
    """A11: a foreign record on the subject."""
    if not value.startswith(MAGIC):
        assert decode_record(value, CLUSTER) is None


@given(st.integers(0, 255), st.binary(max_size=200))
def test_bytes_that_begin_like_a_record_are_refused_or_read(first: int, rest: bytes) -> None:
    with pytest.raises(PermanentError):
        decode_record(MAGIC + bytes((first,)) + CLUSTER + rest, CLUSTER)


@given(st.integers(0, 255), st.binary(max_size=60))
def test_the_bytes_of_an_item_are_refused_or_read(kind: int, rest: bytes) -> None:
    """Anything but PermanentError fails the test."""
    with suppress(PermanentError):
        decode_item(kind, b"\x01" + rest)


@given(cluster_records())
def test_a_record_of_another_cluster_is_no_record_of_ours(record: ClusterRecord) -> None:
    assert decode_record(encode_record(record), OTHER) is None


@given(cluster_records(), st.data())
def test_any_flipped_bit_is_noticed(record: ClusterRecord, data: st.DataObject) -> None:
    value = encode_record(record)
    at = data.draw(st.integers(0, len(value) - 1))
    flipped = bytes((value[at] ^ 1 << data.draw(st.integers(0, 7)),))
    damaged = value[:at] + flipped + value[at + 1 :]
    if at in IDENTITY:
        assert decode_record(damaged, CLUSTER) is None
    else:
        with pytest.raises(PermanentError):
            decode_record(damaged, CLUSTER)


@given(cluster_records(), st.data())
def test_a_cut_record_of_ours_is_not_taken_for_a_foreign_one(record: ClusterRecord, data: st.DataObject) -> None:
    value = encode_record(record)
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    if len(cut) < len(MAGIC):
        assert decode_record(cut, CLUSTER) is None
    else:
        with pytest.raises(PermanentError):
            decode_record(cut, CLUSTER)
