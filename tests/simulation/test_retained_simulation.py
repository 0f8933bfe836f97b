"""What the simulation of retained messages takes for a broken promise, and what not."""

from collections.abc import Iterator

import pytest

from holdfast.client.message import encode_message
from holdfast.durable.state_machine.outcome import APPLIED, Outcome
from holdfast.durable.state_machine.tables import RETAINED
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import V5
from holdfast.records.messages import StoredMessage
from holdfast.records.retained import RetainedRecord, encode_retained, retained_key
from tests.simulation.retained_simulation import TOPICS, RetainedSimulation
from tests.simulation.seeded_cluster import ViolationError


@pytest.fixture
def simulation() -> Iterator[RetainedSimulation]:
    simulation = RetainedSimulation(1)
    with simulation.world:
        yield simulation


def outcome(version: int, payload: bytes) -> Outcome:
    """A record by which a retained message came, or was removed."""
    message = Message(TOPICS[0].encode(), payload, 1, ClientId("c"), 0)
    record = RetainedRecord(StoredMessage(message, 1, 1), 0, version)
    decided = Outcome(version, APPLIED)
    decided.changes.into(RETAINED).put(retained_key(message.topic), encode_retained(record))
    return decided


def test_a_value_that_is_gone_without_a_removal_is_a_violation(simulation: RetainedSimulation) -> None:
    node = simulation.world.nodes[0]
    simulation._note_entries(node, outcome(7, b"value"))
    with pytest.raises(ViolationError, match="returned"):
        simulation._check_node(node)


def test_a_removal_that_was_compacted_between_two_looks_is_none(simulation: RetainedSimulation) -> None:
    node = simulation.world.nodes[0]
    simulation._note_entries(node, outcome(7, b"value"))
    simulation._note_entries(node, outcome(8, b""))
    simulation._check_node(node)
    assert simulation._greatest[node][TOPICS[0]] == (8, 0, False)


def test_a_value_below_a_removal_is_a_violation(simulation: RetainedSimulation) -> None:
    """The removal was noted with its record, though nobody has looked while it was there (A18)."""
    one, two, _three = simulation.world.nodes
    client = simulation.clients["p1"]
    client.connect(two)
    simulation.work()
    client.core.publish(encode_message(TOPICS[0], b"value", 1, V5, retain=True))
    simulation.work()
    simulation._check_node(one)
    assert simulation._greatest[one][TOPICS[0]][2]
    simulation._note_entries(one, outcome(1 << 60, b""))
    with pytest.raises(ViolationError, match="returned"):
        simulation._check_node(one)
