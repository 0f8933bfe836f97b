"""What commands ask of nodes, and what nodes answer: JSON that both sides read with care."""

import asyncio
import json
from typing import Any

import pytest

from holdfast.cluster.node_service import CLAIMS, KICK, NodeService, ask_all, past_claims
from holdfast.cluster.registry.claim_history import ClaimHistory
from holdfast.model.clock import ManualClock
from tests.memory_requests import MemoryNetwork
from tests.unit.cluster.node_world import FakeTimers
from tests.unit.cluster.registry.test_claim_history import applied, claim


class Nodes:
    """Two nodes that answer, and a command."""

    def __init__(self) -> None:
        self.network = MemoryNetwork(FakeTimers())
        self.requests = self.network.of(0)
        self.kicked: list[tuple[int, str]] = []

    async def start(self) -> None:
        for node in (1, 2):
            clock = ManualClock()
            history = ClaimHistory(clock)
            history.applied(applied(clock.wall_us(), claim("a")))

            def kick(session_id: str, _detail: str, node: int = node) -> str:
                self.kicked.append((node, session_id))
                return "10.0.0.9" if node == 2 else ""

            await NodeService(history, kick).start(self.network.of(node))


def asked(what: str, body: dict[str, Any]) -> tuple[Nodes, dict[int, dict[str, Any]]]:
    async def run() -> tuple[Nodes, dict[int, dict[str, Any]]]:
        nodes = Nodes()
        await nodes.start()
        return nodes, await ask_all(nodes.requests, [1, 2, 3], what, body)

    return asyncio.run(run())


def test_claims_of_a_client_id_are_told() -> None:
    _nodes, answers = asked(CLAIMS, {"session": "a"})
    assert set(answers) == {1, 2}, "node 3 is not there"
    (found,) = past_claims(answers[2])
    assert (found.connection, found.accepted) == (1, True)
    _nodes, answers = asked(CLAIMS, {"session": "b"})
    assert past_claims(answers[1]) == []


def test_a_kick_reaches_every_node_and_tells_from_where_the_connection_came() -> None:
    nodes, answers = asked(KICK, {"session": "a"})
    assert nodes.kicked == [(1, "a"), (2, "a")]
    assert {node: answer["address"] for node, answer in answers.items()} == {1: "", 2: "10.0.0.9"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON object"),
        (b"no json", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"version": 2, "session": "a"}', "version 2"),
        (b'{"version": 1}', "session None"),
        (b'{"version": 1, "session": 7}', "session 7"),
    ],
)
def test_a_request_that_cannot_be_read_is_answered_with_the_reason_and_does_nothing(body: bytes, why: str) -> None:
    async def run() -> tuple[Nodes, bytes | None]:
        nodes = Nodes()
        await nodes.start()
        return nodes, await nodes.requests.ask(2, KICK, body, 1.0)

    nodes, answer = asyncio.run(run())
    assert answer is not None
    assert why in json.loads(answer)["error"]
    assert nodes.kicked == []


@pytest.mark.parametrize("answer", [{}, {"claims": 7}, {"claims": [7, {"node": 1}]}])
def test_an_answer_of_another_version_shows_nothing(answer: dict[str, Any]) -> None:
    assert past_claims(answer) == []
