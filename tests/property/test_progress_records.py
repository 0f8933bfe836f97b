"""A progress is read as it was written, whatever is in flight, and no entry is larger than it may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.records.session.progress import (
    HEAD_BYTES,
    MAX_ENTRY_BYTES,
    SHARD_BYTES,
    GroupProgressWriter,
    Progress,
    ProgressEntry,
    decode_progress,
    encode_progress,
)
from holdfast.records.session.retained_progress import RetainedPlace

pytestmark = pytest.mark.compiled

PACKET_IDS = st.integers(1, 65_535)
SHARDS = st.integers(0, 65_535)
POSITIONS = st.integers(0, 2**63 - 1) | st.integers(1_700_000_000_000_000, 1_700_000_000_100_000)
QOS = st.sampled_from([1, 2])
LOGGED = st.builds(ProgressEntry, PACKET_IDS, QOS, SHARDS, POSITIONS)
PLACES = st.builds(
    RetainedPlace, st.binary(max_size=20), st.integers(0, 2**62), st.tuples(st.integers(1, 2**28)) | st.just(())
)
RETAINED = st.builds(ProgressEntry, PACKET_IDS, QOS, st.just(0), st.just(0), PLACES)


@given(st.dictionaries(SHARDS, POSITIONS, max_size=4), st.lists(LOGGED | RETAINED, max_size=20), PACKET_IDS)
def test_a_progress_is_read_as_it_was_written(sent: dict[int, int], entries: list[ProgressEntry], last: int) -> None:
    read = decode_progress(encode_progress(Progress(sent, entries, last)))
    assert (read.sent, read.unacknowledged, read.last_packet_id) == (sent, entries, last)


@given(st.dictionaries(SHARDS, POSITIONS, max_size=4), st.lists(LOGGED, max_size=20))
def test_a_record_is_no_larger_than_its_entries_may_make_it(sent: dict[int, int], entries: list[ProgressEntry]) -> None:
    most_bytes = HEAD_BYTES + SHARD_BYTES * len(sent) + MAX_ENTRY_BYTES * len(entries)
    assert len(encode_progress(Progress(sent, entries, 1))) <= most_bytes


@given(
    st.dictionaries(st.integers(0, 3), st.integers(1, 40), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=20),
)
def test_of_what_a_group_has_given_out_only_what_is_open_is_not_done(
    up_to: dict[int, int], unacknowledged: list[tuple[int, int]]
) -> None:
    writer = GroupProgressWriter(up_to)
    for place in unacknowledged:
        writer.add(*place)
    read = decode_progress(writer.record())
    for shard in range(5):
        for position_us in range(1, 52):
            done = position_us <= up_to.get(shard, 0) and (shard, position_us) not in unacknowledged
            assert read.is_done(shard, position_us) == done
    assert read.sent == writer.sent
    assert all(
        position_us > read.sent[shard]
        for shard, position_us in unacknowledged
        if 0 < position_us <= up_to.get(shard, 0)
    )
