"""The scheduler: who is asked what happens next, and every way to answer.

A story that can go on in several ways asks `choose(how many)`. An order is the list of the answers. `every_order` gives
a `choose` for each order there is, `following` one for a given order, `some_orders` those of a sample.

    0 0 0 0      the first order always takes the first way
    0 0 0 1      then the last decision that has another way is changed,
    0 0 1 0      and those behind it begin anew, however many there are now
    …
"""

import os
import random
from collections.abc import Callable, Iterator

#: HOLDFAST_ORDERS=all tells the longer stories, too: half an hour.
DEEP = os.environ.get("HOLDFAST_ORDERS") == "all"

#: One of `n` ways, counted from 0.
Choose = Callable[[int], int]
#: Tells a story to its end; AssertionError if it ends badly.
Tell = Callable[[Choose], object]


def every_order() -> Iterator[Choose]:
    """Decide in every possible way, one after another: an odometer whose wheels grow as decisions come up."""
    wheels: list[tuple[int, int]] = []
    while True:
        place = 0

        def choose(count: int) -> int:
            nonlocal place
            if place == len(wheels):
                wheels.append((0, count))
            assert wheels[place][1] == count, "the story is not deterministic"
            place += 1
            return wheels[place - 1][0]

        yield choose
        while wheels and wheels[-1][0] + 1 == wheels[-1][1]:
            wheels.pop()
        if not wheels:
            return
        wheels[-1] = (wheels[-1][0] + 1, wheels[-1][1])


def following(numbers: list[int]) -> Choose:
    """Decide by a list, and take the first way once it is used up."""
    left = iter(numbers)
    return lambda count: next(left, 0) % count


def some_orders(count: int, seed: int = 1) -> Iterator[Choose]:
    """So many orders, drawn evenly at each decision; the same ones each time."""
    for number in range(count):
        yield random.Random(seed * 1_000_003 + number).randrange


class Recorded:
    """A `choose` that remembers its answers, so that an order can be told again."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.numbers: list[int] = []

    def __call__(self, count: int) -> int:
        number = 0 if count == 1 else self._choose(count)
        if count > 1:
            self.numbers.append(number)
        return number


def tell_all(tell: Tell, orders: Iterator[Choose]) -> int:
    """Tell a story in each of these orders; how many there were. A failure names its order."""
    count = 0
    for choose in orders:
        recorded = Recorded(choose)
        try:
            tell(recorded)
        except Exception as error:
            error.add_note(f"order {count + 1}, to be told again with following({recorded.numbers})")
            raise
        count += 1
    return count
