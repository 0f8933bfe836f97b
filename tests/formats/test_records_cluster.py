"""Golden bytes of records of a cluster, of every item and every session step in them."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.cluster.item_codec import decode_item, encode_item
from holdfast.records.cluster.items import Item
from holdfast.records.cluster.record import LEVEL, decode_record, encode_record, revision_of
from holdfast.records.cluster.session_steps import STEPS, StepItem
from holdfast.records.fields import u32
from tests.formats import golden_cluster as golden
from tests.formats.golden_records import spaced

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
