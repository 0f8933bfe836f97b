"""A checker of linearizability for histories of a registry, and the registry as one object that it is compared with.

A history is linearizable if each operation can be given one moment between its call and its answer, so that the
operations in the order of these moments are what one registry without any delay would have answered. Operations without
an answer may have taken effect at any moment after their call, or never.

The search is that of Wing and Gong, with the configurations that were visited remembered (Lowe). Client ids are
independent, so each is searched for itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass

#: A channel by its name in the history; None for no channel.
Channel = str | None
#: Behind every answer.
NEVER = 1 << 60


@dataclass(frozen=True)
class Registered:
    """What one registry without delays holds for a client id: who is, or was last, registered, and its version."""

    channel: Channel = None
    version: tuple[int, int, int] = (0, 0, 0)
    released: bool = False

    @property
    def live(self) -> Channel:
        return None if self.released else self.channel


@dataclass(frozen=True)
class Operation:
    """One call, and its answer. Calls and answers have moments of their own, all different."""

    client_id: str
    called: int
    answered: int = NEVER

    def after(self, before: Registered) -> list[Registered]:
        """What the registry may be behind this operation; nothing if it would have answered something else."""
        raise NotImplementedError


@dataclass(frozen=True)
class Register(Operation):
    """A commit of `channel` in place of `expected`."""

    channel: str = ""
    version: tuple[int, int, int] = (0, 0, 0)
    expected: Channel = None
    #: `True`, `False` with what stood in the way, or None for no answer.
    committed: bool | None = None
    found: Channel = None

    def after(self, before: Registered) -> list[Registered]:
        newer = before.channel is None or self.version > before.version
        is_expected = before.live == self.expected
        # A version that was released is compared for a minute, which is not noted here.
        may_win = is_expected and (newer or before.released)
        may_lose = not (is_expected and newer)
        in_the_way = before.live if newer else before.channel
        found: list[Registered] = []
        if may_win and self.committed is not False:
            found.append(Registered(self.channel, self.version))
        if may_lose and (self.committed is None or (not self.committed and self.found == in_the_way)):
            found.append(before)
        return found


@dataclass(frozen=True)
class Read(Operation):
    """Who is registered. Without an answer it says nothing."""

    found: Channel = None

    def after(self, before: Registered) -> list[Registered]:
        return [before] if self.answered == NEVER or before.live == self.found else []


@dataclass(frozen=True)
class Remove(Operation):
    """A channel is taken out; also what closing the epoch of its node does."""

    channel: str = ""
    removed: bool | None = None

    def after(self, before: Registered) -> list[Registered]:
        is_there = before.live == self.channel
        if self.removed is not None and self.removed != is_there:
            return []
        return [Registered(before.channel, before.version, released=True) if is_there else before]


def violations(history: Iterable[Operation]) -> list[str]:
    """The client ids whose operations have no order that explains them."""
    by_client: dict[str, list[Operation]] = {}
    for operation in history:
        by_client.setdefault(operation.client_id, []).append(operation)
    return [client_id for client_id, operations in sorted(by_client.items()) if not is_linearizable(operations)]


def is_linearizable(operations: list[Operation]) -> bool:
    """Whether the operations of one client id can be put in order."""
    ordered = sorted(_visible(operations), key=lambda one: one.called)
    required = sum(1 << index for index, one in enumerate(ordered) if one.answered != NEVER)
    #: What is in order already, as bits, and the registry behind it.
    stack: list[tuple[int, Registered]] = [(0, Registered())]
    visited = set(stack)
    while stack:
        done, state = stack.pop()
        if done & required == required:
            return True
        for index in _next_ones(ordered, done):
            for after in ordered[index].after(state):
                config = (done | 1 << index, after)
                # One without an answer that changes nothing may as well never have happened.
                is_idle = ordered[index].answered == NEVER and after == state
                if not is_idle and config not in visited:
                    visited.add(config)
                    stack.append(config)
    return False


def _visible(operations: list[Operation]) -> list[Operation]:
    """Without the registrations in place of nobody that no answer tells of, and no operation expects.

    One that took effect was taken out again before anything else happened: as if it had not been.
    """
    named: set[Channel] = set()
    for one in operations:
        if isinstance(one, Register):
            named |= {one.expected, one.found}
        elif isinstance(one, Read):
            named.add(one.found)
        elif isinstance(one, Remove) and one.removed:
            named.add(one.channel)
    return [
        one
        for one in operations
        if not isinstance(one, Register) or one.committed is not None or one.expected or one.channel in named
    ]


def _next_ones(ordered: list[Operation], done: int) -> list[int]:
    """The operations that may come next: those that were called before the first missing answer."""
    found: list[int] = []
    first_answer = NEVER
    for index, one in enumerate(ordered):
        if one.called > first_answer:
            break
        if not done >> index & 1:
            found.append(index)
            first_answer = min(first_answer, one.answered)
    # The last is tried first: the one with the earliest answer.
    return sorted(found, key=lambda index: -ordered[index].answered)
