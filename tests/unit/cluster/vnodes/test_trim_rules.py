"""Where a log is trimmed: behind what a majority has on disk, and within a bound for members that are late."""

import pytest

from holdfast.cluster.vnodes.trim_rules import (
    HOLD_S,
    CheckpointHolds,
    TrimLimits,
    describe_late,
    is_worth_a_trim,
    trim_before,
)
from holdfast.durable.ordered_log import LogEnds
from holdfast.model.clock import ManualClock

#: Records of 10 bytes: 100 of them are kept for members, 200 for an installation.
LIMITS = TrimLimits(catch_up_bytes=1000, install_bytes=2000)


def log(first: int, last: int) -> LogEnds:
    return LogEnds(first, last, "a", 10 * (last - first + 1))


@pytest.mark.parametrize(
    ("ends", "synced", "holds", "before"),
    [
        pytest.param(log(1, 50), [50, 50, 40], [], 40, id="the slowest member has the most to say"),
        pytest.param(log(1, 100), [100, 100, 0], [], 1, id="a dead member holds the log while it is small"),
        pytest.param(log(1, 500), [500, 500, 0], [], 401, id="a dead member holds no more than catch_up_bytes"),
        pytest.param(log(1, 500), [500, 300, 0], [], 300, id="what a majority has not synced stays, whatever its size"),
        pytest.param(log(1, 500), [500, 0, 0], [], 0, id="one disk of three is no majority"),
        pytest.param(log(1, 500), [500, 450], [], 450, id="of two members both are needed"),
        pytest.param(log(1, 500), [500, 500, 500, 400, 0], [], 401, id="three of five are a majority"),
        pytest.param(log(401, 500), [500, 500, 0], [], 401, id="what is trimmed already stays trimmed"),
        pytest.param(log(1, 500), [500, 500, 500], [350], 350, id="an installation holds the log at its checkpoint"),
        pytest.param(log(1, 500), [500, 500, 500], [100], 301, id="an installation holds no more than install_bytes"),
        pytest.param(log(1, 500), [500, 500, 0], [390, 450], 390, id="of several installations the lowest counts"),
        pytest.param(log(1, 500), [], [], 1, id="no member is known yet"),
        pytest.param(LogEnds(8, 7, "a"), [7, 7, 7], [], 7, id="an empty log"),
    ],
)
def test_where_a_log_is_trimmed(ends: LogEnds, synced: list[int], holds: list[int], before: int) -> None:
    """A20, A13."""
    assert trim_before(ends, synced, holds, LIMITS) == before


def test_a_trim_has_to_be_worth_it_by_records_or_by_bytes() -> None:
    assert not is_worth_a_trim(log(1, 500), 1, LIMITS)
    assert not is_worth_a_trim(log(1, 500), 6, LIMITS)
    assert is_worth_a_trim(log(1, 500), 8, LIMITS), "a sixteenth of catch_up_bytes"
    small = LogEnds(1, 5000, "a", 5000)
    assert not is_worth_a_trim(small, 1000, TrimLimits(1 << 30, 1 << 30))
    assert is_worth_a_trim(small, 1001, TrimLimits(1 << 30, 1 << 30))


def test_a_hold_counts_while_it_is_announced() -> None:
    clock = ManualClock()
    holds = CheckpointHolds(clock.monotonic_us)
    holds.announced(2, [5, 6])
    holds.announced(3, [9])
    assert (holds.of(0), holds.of(1)) == ([5, 9], [6])
    clock.advance(int(HOLD_S * 1_000_000))
    holds.announced(3, [7, 8])
    clock.advance(1)
    assert (holds.of(0), holds.of(1)) == ([7], [8])


def test_members_that_a_trim_leaves_behind_are_named() -> None:
    assert describe_late({1: 40, 2: 39, 3: 38, 4: 0}, 40) == (3, 4)
