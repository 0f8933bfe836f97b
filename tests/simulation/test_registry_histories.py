"""R14: histories of the registry under faults are linearizable; and the checker finds those that are not.

HOLDFAST_HISTORIES chooses how many long histories are made (`make soak` takes ten).
"""

import asyncio
import os

import pytest

from holdfast.cluster.registry.log_registry import LogRegistry
from holdfast.durable.takeover.registry import PATIENCE_S, Registration, Unsettled
from holdfast.model.ids import ClientId
from tests.linearizability import NEVER, Operation, Read, Register, Remove, violations
from tests.simulation.registry_histories import MakeRegistry, RegistryRun

HISTORIES = int(os.environ.get("HOLDFAST_HISTORIES", "1"))
LONG = 10_000


def history(seed: int, count: int, make_registry: MakeRegistry = LogRegistry) -> list[Operation]:
    return asyncio.run(RegistryRun(seed, count, make_registry).run())


def test_a_short_history_under_faults_is_linearizable() -> None:
    """R14."""
    operations = history(1, 1500)
    assert violations(operations) == []
    kinds = {
        kind: sum(isinstance(one, kind) and one.answered != NEVER for one in operations) for kind in (Read, Remove)
    }
    won = sum(isinstance(one, Register) and one.committed is True for one in operations)
    lost = sum(isinstance(one, Register) and one.committed is False for one in operations)
    assert min(*kinds.values(), won, lost) > 50, "all kinds of answers come up"
    assert any(one.answered == NEVER for one in operations)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_long_history_under_faults_is_linearizable(seed: int) -> None:
    """R14."""
    operations = history(100 + seed, LONG)
    assert len(operations) >= LONG
    assert violations(operations) == []


class StaleReads(LogRegistry):
    """Reads what this node has applied, as if that were what the log says."""

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        return self.local_newest(client_id)


def test_a_registry_that_reads_its_own_table_is_found_out() -> None:
    """The read of a node that is behind shows what was replaced before it was asked."""
    assert violations(history(2, 3000, StaleReads)) != []


V1, V2, V3 = (1, 1, 1), (2, 1, 2), (3, 1, 3)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(
            [
                Register("c", 1, 4, "a", V1, None, committed=True),
                Register("c", 2, 3, "b", V2, None, committed=True),
            ],
            id="two are registered in place of nobody",
        ),
        pytest.param(
            [Register("c", 1, 2, "a", V1, None, committed=True), Read("c", 3, 4, None)],
            id="a read misses what was registered before it",
        ),
        pytest.param(
            [
                Register("c", 1, 2, "a", V1, None, committed=True),
                Register("c", 3, 4, "b", V2, "a", committed=True),
                Remove("c", 5, 6, "a", removed=True),
            ],
            id="an old channel is taken out though it was replaced",
        ),
        pytest.param(
            [
                Register("c", 1, 2, "b", V2, None, committed=True),
                Register("c", 3, 4, "a", V1, "b", committed=True),
            ],
            id="an older one replaces a newer one",
        ),
        pytest.param(
            [
                Register("c", 1, NEVER, "a", V1, None),
                Read("c", 2, 3, "a"),
                Read("c", 4, 5, None),
            ],
            id="what showed up late is gone again",
        ),
        pytest.param(
            [
                Register("c", 1, 2, "a", V1, None, committed=True),
                Register("c", 3, 4, "b", V2, "a", committed=False, found="a"),
            ],
            id="a commit is lost though nothing stood in its way",
        ),
    ],
)
def test_a_history_that_no_order_explains_is_found(operations: list[Operation]) -> None:
    assert violations(operations) == ["c"]


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(
            [
                Register("c", 1, 4, "a", V1, None, committed=True),
                Register("c", 2, 3, "b", V2, None, committed=False, found="a"),
            ],
            id="at the same time",
        ),
        pytest.param(
            [Register("c", 1, NEVER, "a", V1, None), Read("c", 2, 3, None), Read("c", 4, 5, "a")],
            id="without an answer, later",
        ),
        pytest.param([Register("c", 1, NEVER, "a", V1, None), Read("c", 2, 3, None)], id="without an answer, never"),
        pytest.param(
            [
                Register("c", 1, 2, "b", V2, None, committed=True),
                Remove("c", 3, 4, "b", removed=True),
                Register("c", 5, 6, "a", V1, None, committed=False, found="b"),
                Register("c", 7, 8, "d", V3, None, committed=True),
            ],
            id="a newer one was released lately",
        ),
    ],
)
def test_a_history_that_some_order_explains_is_accepted(operations: list[Operation]) -> None:
    assert violations(operations) == []
