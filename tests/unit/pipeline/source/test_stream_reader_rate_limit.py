"""How many messages each shard gets of a limit, and where the last of them lies."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.source.offsets import NOWHERE
from holdfast.pipeline.source.stream_reader import locate_serial, share_limit
from tests.unit.pipeline.filled_log import Log


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 50), max_size=6), st.integers(1, 100))
def test_a_limit_is_used_up_and_shared_fairly(wanted: dict[int, int], limit: int) -> None:
    shares = share_limit(wanted, limit)

    assert sum(shares.values()) == min(limit, sum(wanted.values()))
    assert all(0 <= shares[shard] <= wanted[shard] for shard in wanted)
    short = [shares[shard] for shard in wanted if shares[shard] < wanted[shard]]
    if short:
        assert max(shares.values()) <= max(short) + 1
        assert max(short) - min(short) <= 1


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A shard with a pause of a minute in it, in two generations."""
    log = Log(tmp_path_factory.mktemp("log"), shards=1)
    log.fill(60)
    log.rotate()
    log.fill(30)
    yield log
    log.close()


def test_the_place_behind_every_message_is_found(log: Log) -> None:
    source = HistoryReader.open(Path(log.path))
    head = source.heads()[0]
    walked = log.walk()

    for serial in range(head.serial):
        found = locate_serial(source, 0, NOWHERE, head, serial)
        assert found.serial == serial
        behind = [key for key, stored in walked.items() if stored.position_us > found.position_us]
        assert min(behind) == (0, serial + 1)
    source.close()


def test_a_handful_of_looks_is_enough(log: Log) -> None:
    class Counting(HistoryReader):
        looks = 0

        def first(self, part):  # type: ignore[no-untyped-def]
            self.looks += 1
            return super().first(part)

    source = Counting.open(Path(log.path))
    locate_serial(source, 0, NOWHERE, source.heads()[0], 45)

    assert source.looks < 80
    source.close()
