"""What a writer must not put into a record."""

import pytest

from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.items import Item, MessageItem, Tick
from holdfast.records.cluster.record import (
    MAX_ITEMS,
    MAX_RECORD_BYTES,
    MAX_VERSION,
    ClusterRecord,
    SessionEntry,
    decode_record,
    encode_record,
)
from holdfast.records.cluster.session_steps import DROP_SESSION, StepItem

pytestmark = pytest.mark.compiled

CLUSTER = bytes(16)


def a_record(items: list[Item], *, cluster: bytes = CLUSTER, seen: int = 0) -> ClusterRecord:
    return ClusterRecord(cluster, 1, 1, 1, 0, seen, [SessionEntry("c", 1)], items)


def a_message(payload_bytes: int) -> MessageItem:
    return MessageItem(0, Message(b"t", bytes(payload_bytes), 1, ClientId("c"), 0))


def test_a_record_at_its_bound_is_written_and_one_byte_more_is_not() -> None:
    """A11."""
    around = len(encode_record(a_record([a_message(0)])))
    largest = encode_record(a_record([a_message(MAX_RECORD_BYTES - around)]))
    assert len(largest) == MAX_RECORD_BYTES
    assert decode_record(largest, CLUSTER) is not None
    with pytest.raises(MisuseError, match="a log takes"):
        encode_record(a_record([a_message(MAX_RECORD_BYTES - around + 1)]))


def test_a_record_has_a_bounded_number_of_items() -> None:
    ticks: list[Item] = [Tick()] * MAX_ITEMS
    assert decode_record(encode_record(a_record(ticks)), CLUSTER) is not None
    with pytest.raises(MisuseError, match="65,535"):
        encode_record(a_record([*ticks, Tick()]))


@pytest.mark.parametrize("item", [StepItem(1, DROP_SESSION), MessageItem(1, a_message(0).message)])
def test_an_item_of_a_session_that_is_not_in_the_table_is_refused(item: Item) -> None:
    with pytest.raises(MisuseError, match="session 1"):
        encode_record(a_record([item]))


def test_a_cluster_id_has_16_bytes() -> None:
    with pytest.raises(MisuseError, match="16"):
        encode_record(a_record([], cluster=bytes(15)))


@pytest.mark.parametrize("seen", [-1, MAX_VERSION])
def test_a_version_that_is_none_is_refused(seen: int) -> None:
    with pytest.raises(MisuseError, match="version"):
        encode_record(a_record([], seen=seen))


def test_an_unknown_session_step_is_refused() -> None:
    with pytest.raises(MisuseError, match="session step"):
        encode_record(a_record([StepItem(0, 0x12)]))
