"""A scan by time gives what brute force gives, from any place, both ways, however often it is stopped and goes on."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.log import NO_END
from holdfast.history.past.time_scan import END, MAX_SHARD, TIME, Place, ScanLimits, TimeScan, newer, older
from holdfast.history.reader.reader import HistoryReader
from holdfast.topics.filters import parse_filter
from tests.unit.history.past.past_folder import FILTERS, LAYOUTS, PastFolder, place_of

Opened = tuple[PastFolder, HistoryReader]


@pytest.fixture(scope="module", params=LAYOUTS)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    past = PastFolder(tmp_path_factory.mktemp("past"), request.param)
    with HistoryReader.open(past.folder) as reader:
        yield past, reader
    past.close()


class StoppedClock:
    """A clock by which the time of a scan is over after some looks at it."""

    def __init__(self, looks: int) -> None:
        self._looks = looks

    def __call__(self) -> float:
        self._looks -= 1
        return 0.0 if self._looks > 0 else 1e9


#: A bound by messages, or by looks at the clock.
_limits = st.one_of(
    st.integers(1, 60).map(lambda count: lambda: ScanLimits(messages=count)),
    st.integers(1, 40).map(lambda looks: lambda: ScanLimits(clock=StoppedClock(looks))),
    st.just(ScanLimits),
)
_bounds = st.tuples(st.integers(-1, 1_000), st.integers(-1, 1_000), st.integers(-1, 1))


def bound(past: PastFolder, number: int, beside_us: int) -> int:
    """A position of a message, or beside one; outside of all if there is no such message."""
    written = past.store.written
    return written[number].position_us + beside_us if 0 <= number < len(written) else 0 if number < 0 else NO_END - 2


@given(text=st.sampled_from(FILTERS), bounds=_bounds, limits=_limits, data=st.data())
def test_backwards_everything_comes_once_and_the_newest_first(
    opened: Opened, text: str, bounds: tuple[int, int, int], limits: object, data: st.DataObject
) -> None:
    past, reader = opened
    from_us, at_us = bound(past, bounds[0], bounds[2]), bound(past, bounds[1], 0)
    levels = parse_filter(text.encode()).levels
    place: Place = (at_us + 1, 0)
    found: list[Place] = []
    for _scan in range(10_000):
        scan: TimeScan = older(reader, place, from_us, levels, limits=limits())  # type: ignore[operator]
        before = place
        for one in scan:
            found.append(one.place)
            if data.draw(st.integers(0, 30)) == 0:
                break  # its reader has enough
        place = scan.place
        if scan.stopped == END:
            break
        assert place < before, "each scan advances"
    wanted = past.expected(text, from_us, at_us + 1)
    assert found == [place_of(one) for one in reversed(wanted)]


@given(text=st.sampled_from(FILTERS), bounds=_bounds, limits=_limits, data=st.data())
def test_forwards_everything_comes_once_and_the_oldest_first(
    opened: Opened, text: str, bounds: tuple[int, int, int], limits: object, data: st.DataObject
) -> None:
    past, reader = opened
    at_us, to_us = bound(past, bounds[0], bounds[2]), bound(past, bounds[1], 0)
    levels = parse_filter(text.encode()).levels
    place: Place = (at_us, MAX_SHARD)
    found: list[Place] = []
    for _scan in range(10_000):
        scan: TimeScan = newer(reader, place, to_us, levels, limits=limits())  # type: ignore[operator]
        before = place
        for one in scan:
            found.append(one.place)
            if data.draw(st.integers(0, 30)) == 0:
                break
        place = scan.place
        if scan.stopped == END:
            break
        assert place > before, "each scan advances"
    assert found == [place_of(one) for one in past.expected(text, at_us + 1, to_us)]


def test_a_zone_has_its_own_messages_alone(opened: Opened) -> None:
    past, reader = opened
    shards = set(next(zone.shards for zone in reader.zones() if zone.name == "machines"))
    found = [one.place for one in older(reader, (NO_END, 0), 0, (b"#",), "machines")]
    assert found == [place_of(one) for one in reversed(past.expected()) if one.shard in shards]
    assert found


def test_a_scan_that_finds_nothing_stops_in_time_and_says_how_far_it_came(opened: Opened) -> None:
    past, reader = opened
    scan = older(reader, (NO_END, 0), 0, (b"nothing", b"#"), limits=ScanLimits(clock=StoppedClock(1)))
    assert list(scan) == []
    assert scan.stopped in (TIME, END)
    assert scan.place < (NO_END, 0)
    assert past.store.written
