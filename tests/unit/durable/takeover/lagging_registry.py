"""A registry whose local view hears of changes late: several of them share one real registry, as nodes do."""

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from holdfast.durable.takeover.registry import (
    PATIENCE_S,
    CommitResult,
    Committed,
    MemoryRegistry,
    Registration,
    Unsettled,
)
from holdfast.model.ids import ClientId

T = TypeVar("T")

#: What happened in the real registry, in order: who is registered under a client id from then on.
Change = tuple[ClientId, Registration | None]


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the call waited")


class LaggingRegistry:
    """One node's view. Fulfils the contract by its shape: it stays interpreted when the contract is compiled."""

    def __init__(self, real: MemoryRegistry, changes: list[Change]) -> None:
        self.real: Final = real
        self._changes: Final = changes
        self._heard = 0
        self._local: Final[dict[ClientId, Registration | None]] = {}

    def lag(self) -> int:
        """Changes that this view has not heard of."""
        return len(self._changes) - self._heard

    def hear(self, count: int) -> None:
        """Let the next `count` changes arrive."""
        for client_id, registration in self._changes[self._heard : self._heard + count]:
            self._local[client_id] = registration
        self._heard = min(self._heard + count, len(self._changes))

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return self._local.get(client_id)

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        return await self.real.read_newest(client_id)

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        result = await self.real.commit(registration, expected_revision)
        if isinstance(result, Committed):
            self._changes.append((registration.client_id, registration.at_revision(result.revision)))
        return result

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        removed = await self.real.remove(registration, goodbye=goodbye)
        if removed:
            self._changes.append((registration.client_id, None))
        return removed
