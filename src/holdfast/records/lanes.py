"""Lanes: where messages lie that were loaded into a zone, beside those that were published to it.

    zone  plant        shard 0    ──────●──●───●──●──▶ head      published: positions only grow
    lane  plant~1      shard 1    ●──●──●│                       loaded, with the times they had
    lane  plant~2      shard 2       ●──●──●│                    loaded, and overlapping the first

A lane is stored like a zone: with its own record, shards and generations. So everything that holds of a shard holds of
what was loaded: positions increase, serials are dense, the head only grows. What overlaps in time lies in two lanes.

1. A lane's name is its zone's, a tilde and a number. No zone of the settings has a tilde in its name.
2. Nothing is published into a lane: its generations are sealed when they come.
3. Sessions are not owed what lies in lanes; replays and readers of history find it.
"""

from typing import Final

#: Never change: in the names of stored zones.
MARK: Final = "~"


def lane_name(zone: str, number: int) -> str:
    """The name of a lane of a zone; the first is 1."""
    return f"{zone}{MARK}{number}"


def is_lane(name: str) -> bool:
    return MARK in name


def zone_of_lane(name: str) -> str:
    """The zone that a lane belongs to; a zone that is no lane belongs to itself."""
    return name.split(MARK, 1)[0]


def lane_number(name: str) -> int:
    """The number of a lane; 0 of an address that is no lane."""
    number = name.partition(MARK)[2]
    return int(number) if number.isdigit() else 0
