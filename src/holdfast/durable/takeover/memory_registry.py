"""A registry in memory: the whole truth on one node, and the model for those that span several."""

from typing import Final

from holdfast.durable.takeover.registry import (
    NOBODY,
    CommitLost,
    CommitResult,
    Committed,
    Registration,
    Registry,
    Unsettled,
)
from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId


class MemoryRegistry(Registry):
    """One map. The local view is the real one, no call waits, none is ever unsettled. Survives: nothing.

    1. An entry stands under its own client id.
    2. Revisions of entries are distinct, above `NOBODY`, and at most the last one given out.
    """

    def __init__(self) -> None:
        self._by_client: Final[dict[ClientId, Registration]] = {}
        self._revision = NOBODY

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return self._by_client.get(client_id)

    async def read_newest(self, client_id: ClientId) -> Registration | Unsettled | None:
        return self._by_client.get(client_id)

    async def commit(self, registration: Registration, expected_revision: int) -> CommitResult:
        current = self._by_client.get(registration.client_id)
        if expected_revision != (NOBODY if current is None else current.revision):
            return CommitLost(current)
        if current is not None and registration.version <= current.version:
            raise MisuseError(f"{registration} would replace {current}, which is not older")
        self._revision += 1
        self._by_client[registration.client_id] = registration.at_revision(self._revision)
        return Committed(self._revision)

    async def remove(self, registration: Registration) -> bool:
        current = self._by_client.get(registration.client_id)
        if current is None or not current.same_channel(registration):
            return False
        del self._by_client[registration.client_id]
        return True

    def count(self) -> int:
        """Channels registered."""
        return len(self._by_client)

    def check_invariants(self) -> None:
        """Raise MisuseError if a numbered invariant does not hold."""
        revisions: set[int] = set()
        for client_id, registration in self._by_client.items():
            if registration.client_id != client_id:
                raise MisuseError(f"1: {registration} stands under {client_id!r}")
            if not NOBODY < registration.revision <= self._revision or registration.revision in revisions:
                raise MisuseError(f"2: {registration} has no distinct revision")
            revisions.add(registration.revision)
