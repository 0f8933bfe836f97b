"""Every step of a session survives the way through a record, and is stored as it would have been without it."""

import pytest
from hypothesis import given

from holdfast.durable.sessions.session_store import DropSession, KeepInflight, KeepSession, SessionStep
from holdfast.durable.state_machine.step_items import encode_session_step, session_step, step_item
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.cluster import session_steps as kinds
from holdfast.records.cluster.item_codec import decode_item, encode_item
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.session.sessions import InflightRecord, encode_inflight
from tests.conformance.session_steps import step_lists
from tests.formats import golden_records as golden

pytestmark = pytest.mark.compiled


@given(step_lists)
def test_a_step_is_the_same_behind_a_record(steps: list[SessionStep]) -> None:
    for step in steps:
        item = decode_item(0x02, encode_item(step_item(step, 3))[5:])
        assert isinstance(item, StepItem)
        assert item.session == 3
        read = session_step(step.client_id, item)
        assert type(read) is type(step)
        assert (read.client_id, encode_session_step(read)) == (step.client_id, encode_session_step(step))
        if isinstance(step, KeepSession) and isinstance(read, KeepSession):
            assert read.record == step.record


def test_a_message_in_flight_is_named_by_its_place() -> None:
    message = Message(b"a/b", b"large", 2, ClientId("p"), 5)
    message.shard, message.position_us = 3, 500
    step = KeepInflight("c", 7, Owed(message, 2, identifiers=(4,)), 9)
    item = step_item(step, 0)
    assert b"large" not in item.value
    read = session_step("c", item)
    assert isinstance(read, KeepInflight)
    assert (read.packet_id, read.order) == (7, 9)
    assert encode_inflight(InflightRecord(read.owed, read.order)) == item.value


def test_a_step_without_a_form_is_our_bug() -> None:
    with pytest.raises(MisuseError):
        step_item(SessionStep("c"), 0)


@pytest.mark.parametrize(
    "item",
    [
        StepItem(0, kinds.KEEP_SESSION, value=b""),
        StepItem(0, kinds.KEEP_PROGRESS, value=b"\x09"),
        StepItem(0, kinds.KEEP_GROUP, value=b"\x09"),
        StepItem(0, kinds.KEEP_INFLIGHT, packet_id=1, value=b""),
        StepItem(0, kinds.KEEP_MEMBER, name=b"\xff"),
        StepItem(0, kinds.KEEP_SUBSCRIPTION, name=b"a/#/b", value=golden.SUBSCRIPTION_BYTES),
    ],
)
def test_a_value_that_cannot_be_read_is_refused(item: StepItem) -> None:
    with pytest.raises(PermanentError):
        session_step("c", item)


def test_a_dropped_session_has_nothing_to_say() -> None:
    read = session_step("c", StepItem(0, kinds.DROP_SESSION))
    assert isinstance(read, DropSession)
