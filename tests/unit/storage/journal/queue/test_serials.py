"""A set of serials, kept as ranges, does what a set of numbers does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.storage.journal.queue.serials import Serials

NUMBERS = st.lists(st.integers(1, 40))


@given(NUMBERS, NUMBERS)
def test_it_holds_what_was_added_and_not_discarded(added: list[int], discarded: list[int]) -> None:
    serials = Serials(added)
    for number in discarded:
        serials.discard(number)
    expected = sorted(set(added) - set(discarded))

    assert list(serials) == expected
    assert len(serials) == len(expected)
    assert bool(serials) is bool(expected)
    assert [number for number in range(42) if number in serials] == expected
    assert list(Serials.parse(str(serials))) == expected


@given(NUMBERS, st.integers(1, 41))
def test_it_finds_the_first_gap_and_forgets_what_lies_below(added: list[int], serial: int) -> None:
    serials = Serials(added)

    assert serials.after(serial) == next(number for number in range(serial, 50) if number not in set(added))
    serials.forget_below(serial)
    assert list(serials) == sorted({number for number in added if number >= serial})


def test_it_is_written_as_ranges() -> None:
    assert str(Serials([3, 1, 2, 7])) == "1-3,7"
    assert str(Serials()) == "-"


@pytest.mark.parametrize("text", ["", "a", "1,x", "3-1", "5,1", "1-3,3", "1-3,4"])
def test_other_texts_are_damage(text: str) -> None:
    with pytest.raises(PermanentError):
        Serials.parse(text)
