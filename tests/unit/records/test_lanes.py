"""Names of lanes."""

import pytest

from holdfast.records.lanes import is_lane, lane_name, lane_number, zone_of_lane

pytestmark = pytest.mark.compiled


def test_a_lane_is_named_by_its_zone_and_a_number() -> None:
    name = lane_name("plant", 12)

    assert name == "plant~12"
    assert is_lane(name)
    assert (zone_of_lane(name), lane_number(name)) == ("plant", 12)


def test_a_zone_belongs_to_itself() -> None:
    assert not is_lane("plant")
    assert (zone_of_lane("plant"), lane_number("plant")) == ("plant", 0)
