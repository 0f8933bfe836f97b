"""The ordered log: what every implementation promises, also to one who opens it again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.durable.ordered_log import OrderedLog
from holdfast.model.errors import MisuseError
from tests.conformance.ordered_logs import (
    BACKENDS,
    MAX_BYTES,
    PARAMETERS,
    Collector,
    Opener,
    append,
    append_all,
    read,
)

pytestmark = pytest.mark.compiled


@pytest.fixture(params=PARAMETERS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return BACKENDS[request.param](request, tmp_path)


def run(opener: Opener, *acts: Callable[[OrderedLog], Awaitable[None]]) -> None:
    """Each act has the log opened again."""

    async def all_acts() -> None:
        for act in acts:
            async with opener() as log:
                await act(log)

    asyncio.run(all_acts())


def test_a_new_log_is_empty_and_begins_with_sequence_1(opener: Opener) -> None:
    async def look(log: OrderedLog) -> None:
        ends = await log.ends()
        assert (ends.first, ends.last) == (1, 0)
        assert ends.incarnation

    run(opener, look, look)


def test_sequences_are_dense_and_go_on_after_the_log_was_opened_again(opener: Opener) -> None:
    async def first(log: OrderedLog) -> None:
        assert await append_all(log, [b"a", b"b", b"c"]) == [1, 2, 3]

    async def second(log: OrderedLog) -> None:
        assert await append_all(log, [b"d"]) == [4]
        assert [entry.record for entry in await read(log, 1, 4)] == [b"a", b"b", b"c", b"d"]

    run(opener, first, second)


def test_the_incarnation_stays_when_the_log_is_opened_again(opener: Opener) -> None:
    found: list[str] = []

    async def look(log: OrderedLog) -> None:
        found.append((await log.ends()).incarnation)
        await append(log, b"a")

    run(opener, look, look)
    assert found[0] == found[1]


def test_all_readers_are_given_one_order_of_records_appended_at_once(opener: Opener) -> None:
    records = [b"%d" % number for number in range(20)]

    async def act(log: OrderedLog) -> None:
        early = Collector()
        reading = log.read(1, early)
        sequences = await asyncio.gather(*[append(log, record) for record in records])
        assert sorted(sequence for sequence in sequences if isinstance(sequence, int)) == list(range(1, 21))
        seen = await early.until(20)
        reading.close()
        assert [entry.sequence for entry in seen] == list(range(1, 21))
        assert sorted(entry.record for entry in seen) == sorted(records)
        for record, sequence in zip(records, sequences, strict=True):
            assert isinstance(sequence, int)
            assert seen[sequence - 1].record == record

    seen_again: list[list[bytes]] = []

    async def check(log: OrderedLog) -> None:
        seen_again.append([entry.record for entry in await read(log, 1, 20)])

    run(opener, act, check, check)
    assert seen_again[0] == seen_again[1]


def test_a_reading_goes_on_with_what_is_appended_later(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a", b"b"])
        reader = Collector()
        reading = log.read(2, reader)
        assert [entry.record for entry in await reader.until(1)] == [b"b"]
        await append_all(log, [b"c"])
        assert [(entry.sequence, entry.record) for entry in await reader.until(2)] == [(2, b"b"), (3, b"c")]
        reading.close()

    run(opener, act)


def test_a_reading_may_begin_one_above_the_end(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a"])
        reader = Collector()
        reading = log.read(2, reader)
        await append_all(log, [b"b"])
        assert [(entry.sequence, entry.record) for entry in await reader.until(1)] == [(2, b"b")]
        reading.close()

    run(opener, act)


def test_a_closed_reading_is_given_nothing_more(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        closed, other = Collector(), Collector()
        log.read(1, closed).close()
        reading = log.read(1, other)
        await append_all(log, [b"a"])
        await other.until(1)
        reading.close()
        assert closed.found == []
        assert not closed.why

    run(opener, act)


def test_a_reading_beyond_the_end_is_stopped(opener: Opener) -> None:
    """A10: a log that lost its tail does not lead on from what was applied."""

    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a"])
        reader = Collector()
        log.read(3, reader)
        await reader.until_stopped()
        assert reader.found == []

    run(opener, act)


def test_a_trim_forgets_the_beginning_and_keeps_sequences(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a", b"b", b"c"])
        await log.trim(3)

    async def check(log: OrderedLog) -> None:
        ends = await log.ends()
        assert (ends.first, ends.last) == (3, 3)
        assert [(entry.sequence, entry.record) for entry in await read(log, 3, 1)] == [(3, b"c")]
        assert await append(log, b"d") == 4
        await log.trim(1)
        assert (await log.ends()).first == 3

    run(opener, act, check)


def test_a_reading_below_the_first_is_stopped(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a", b"b", b"c"])
        await log.trim(3)
        reader = Collector()
        log.read(2, reader)
        await reader.until_stopped()
        assert reader.found == []

    run(opener, act)


def test_a_trim_never_takes_the_last_record(opener: Opener) -> None:
    """A purge above the end would move the end, and sequences would not be dense."""

    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a", b"b"])
        with pytest.raises(MisuseError):
            await log.trim(3)
        ends = await log.ends()
        assert (ends.first, ends.last) == (1, 2)
        assert await append(log, b"c") == 3

    run(opener, act)


def test_the_same_bytes_twice_are_two_records(opener: Opener) -> None:
    """A4: the log knows no record again, however soon it is repeated."""

    async def act(log: OrderedLog) -> None:
        assert await append_all(log, [b"a", b"a"]) == [1, 2]
        assert [entry.record for entry in await read(log, 1, 2)] == [b"a", b"a"]

    run(opener, act)


def test_records_are_kept_byte_for_byte_up_to_the_bound(opener: Opener) -> None:
    """A11: the largest record fits, and a larger one is refused before it is sent."""
    largest = bytes(range(256)) * (MAX_BYTES // 256)

    async def act(log: OrderedLog) -> None:
        await append_all(log, [largest, b"\x00"])
        for wrong in (b"", largest + b"\x00"):
            with pytest.raises(MisuseError):
                log.append(wrong, lambda _result: None)

    async def check(log: OrderedLog) -> None:
        assert [entry.record for entry in await read(log, 1, 2)] == [largest, b"\x00"]
        assert (await log.ends()).last == 2

    run(opener, act, check)


def test_every_entry_has_a_stamp(opener: Opener) -> None:
    async def act(log: OrderedLog) -> None:
        await append_all(log, [b"a"])
        assert all(entry.stamp_us > 0 for entry in await read(log, 1, 1))

    run(opener, act)
