"""What a node has applied, compared with the log in front of it."""

import pytest

from holdfast.durable.ordered_log import FOLLOW, INSTALL, LOST, AppliedPlace, LogEnds, compare

pytestmark = pytest.mark.compiled


def applied(sequence: int, incarnation: str = "a") -> AppliedPlace:
    return AppliedPlace(sequence, 0, incarnation)


@pytest.mark.parametrize(
    ("place", "ends", "expected"),
    [
        pytest.param(applied(0), LogEnds(1, 0, "a"), FOLLOW, id="an empty node and an empty log"),
        pytest.param(applied(0), LogEnds(1, 9, "a"), FOLLOW, id="an empty node and the whole log"),
        pytest.param(applied(0), LogEnds(2, 9, "a"), INSTALL, id="an empty node and a trimmed log"),
        pytest.param(applied(5), LogEnds(1, 9, "a"), FOLLOW, id="in the middle"),
        pytest.param(applied(9), LogEnds(1, 9, "a"), FOLLOW, id="at the end"),
        pytest.param(applied(4), LogEnds(5, 9, "a"), FOLLOW, id="just below the first"),
        pytest.param(applied(3), LogEnds(5, 9, "a"), INSTALL, id="below the first"),
        pytest.param(applied(10), LogEnds(1, 9, "a"), LOST, id="above the last"),
        pytest.param(applied(5), LogEnds(1, 9, "b"), LOST, id="another log that is long enough"),
        pytest.param(applied(3), LogEnds(5, 9, "b"), LOST, id="another log that begins later"),
    ],
)
def test_a_node_follows_installs_or_has_lost_records(place: AppliedPlace, ends: LogEnds, expected: str) -> None:
    """A10, A19."""
    assert compare(place, ends) == expected
