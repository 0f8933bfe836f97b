"""The budget of a scan counts keys; long ones count as several."""

import pytest

from holdfast.durable.retained.retained_store import ScanBudget

pytestmark = pytest.mark.compiled


def test_a_long_key_or_value_costs_more_than_a_short_one() -> None:
    budget = ScanBudget(100)

    budget.visit(10)
    assert budget.left == 99
    budget.visit(600)
    assert budget.left == 96
    budget.visit(10, value_bytes=10_000)
    assert budget.left == 93
