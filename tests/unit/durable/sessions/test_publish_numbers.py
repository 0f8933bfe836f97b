"""Numbered messages are taken once; see also tests/behaviour/delivery/test_numbered_publishes.py."""

import pytest

from holdfast.durable.commit import Batch
from holdfast.durable.sessions.publish_numbers import MemoryNumbers, PublishNumbers, numbers_key

pytestmark = pytest.mark.compiled

ALICE = numbers_key("c", "alice")


class Stored:
    """The last numbers of an earlier run; a `NumberStore` by its shape."""

    def __init__(self, **numbers: int) -> None:
        self._numbers = numbers

    def last(self, key: str) -> int:
        return self._numbers.get(key, -1)


def test_a_number_is_new_if_it_is_above_the_last_one() -> None:
    numbering = PublishNumbers(MemoryNumbers())
    batch = Batch(1)

    assert [numbering.take(ALICE, number, batch) for number in (0, 5, 5, 4, 6)] == [True, True, False, False, True]
    assert batch.numbers == {ALICE: 6}


def test_a_number_of_an_earlier_run_counts() -> None:
    numbering = PublishNumbers(Stored(c=7))

    assert not numbering.take("c", 7, Batch(1))
    assert numbering.take("c", 8, Batch(1))


def test_a_number_that_was_stored_without_a_user_counts_for_every_user() -> None:
    numbering = PublishNumbers(Stored(c=7))

    assert not numbering.take(ALICE, 7, Batch(1))
    assert numbering.take(numbers_key("c", "bob"), 8, Batch(1))


def test_numbers_of_two_users_are_apart() -> None:
    numbering = PublishNumbers(MemoryNumbers())

    assert numbering.take(ALICE, 9, Batch(1))
    assert numbering.take(numbers_key("c", "bob"), 1, Batch(1))
