"""Coroutines that run to their first await at once.

Most connects never wait: the client id is free, and no password is to be hashed. A task for each would cost a third
of the whole connect. So a coroutine is run up to its first real wait right here, and only what remains of it, if
anything does, becomes a task.
"""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final


def run_to_first_await(work: Coroutine[Any, Any, object]) -> Awaitable[object] | None:
    """Run `work` until it waits; the rest, to be awaited in a task, or None if it is done."""
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return _Rest(work, waits_for)


class _Rest:
    """What remains of a coroutine that has begun; passes on what it waits for."""

    def __init__(self, work: Coroutine[Any, Any, object], waits_for: object) -> None:
        self._work: Final = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, object]:
        while True:
            value: Any = None
            thrown: BaseException | None = None
            try:
                value = yield self._waits_for
            except BaseException as error:
                thrown = error
            try:
                self._waits_for = self._work.send(value) if thrown is None else self._work.throw(thrown)
            except StopIteration as done:
                return done.value
