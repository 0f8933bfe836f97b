"""The same stories on the real log: some of their orders, and everything that lies below the broker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interleavings.orders import DEEP, some_orders, tell_all
from tests.interleavings.rocks_disk import RocksDisk
from tests.interleavings.test_hand_over import after_an_absence, of_a_replay, of_a_slow_one
from tests.interleavings.test_leaving_member import who_ends, who_returns
from tests.interleavings.test_sync_and_kill import several
from tests.interleavings.test_takeover import of_a_publisher, of_a_subscriber

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if DEEP else 120)]

_ORDERS = 500 if DEEP else 10


@pytest.mark.parametrize(
    ("story", "how"),
    [
        (several, {}),
        (of_a_subscriber, {"kills": True}),
        (of_a_publisher, {"kills": True}),
        (after_an_absence, {"kills": True}),
        (of_a_replay, {"kills": True}),
        (of_a_slow_one, {"kills": True}),
        (who_returns, {"kills": True}),
        (who_ends, {"kills": True}),
    ],
)
def test_a_story_ends_well_on_rocksdb(
    tmp_path: Path, story: Callable[..., None], how: dict[str, bool], record_property: Callable[[str, object], None]
) -> None:
    """M6, Q1, Q2, Q8, Q10, L13, L15, L20, R12."""
    folders = iter(tmp_path / str(number) for number in range(_ORDERS))
    told = tell_all(lambda choose: story(RocksDisk(next(folders)), choose, 1, 2, **how), some_orders(_ORDERS))
    record_property("orders", told)
    assert told == _ORDERS
