"""The linear channel registry: registrations are rows of the vnodes' tables, and every change is an item of their logs.

    contract        here
    ──────────────  ──────────────────────────────────────────────────────────────
    local_newest    the table as it is applied on this node
    commit          `Claim`: decided where it stands in the log, the same on every node
    read_newest     `ReadRegistration`: what the table says where it stands
    remove          `Release`: behind everything that its channel has written

A claim without an outcome within the patience may still be accepted later. Whoever asked for it reads, a few times, and
then has it removed: the `Release` stands behind the claim in the same writer, so that no registration without a channel
stays. Half of the patience is for the claim, the other half for all reads.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.writer import ItemOutcome, Timers
from holdfast.durable.takeover.registry import (
    ChannelVersion,
    CommitLost,
    CommitResult,
    Committed,
    Registration,
    Unsettled,
)
from holdfast.durable.takeover.takeover import MAX_RETRIES
from holdfast.model.ids import ClientId
from holdfast.records.cluster.items import Claim, Item, ReadRegistration, Release
from holdfast.records.cluster.rows import RegistrationRow

_NO_ANSWER: Final = "the log of this client's vnode does not answer"

#: Who is registered under a session id, by the tables of this node; None for nobody.
Lookup = Callable[[str], RegistrationRow | None]


class LogRegistry:
    """A `Registry` by shape. Survives: what the ordered logs survive."""

    def __init__(self, log: ClusterLog, lookup: Lookup, timers: Timers, patience_s: float = 5.0) -> None:
        self._log: Final = log
        self._lookup: Final = lookup
        self._timers: Final = timers
        self._patience_s: Final = patience_s

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return _registration(client_id, self._lookup(client_id))

    async def read_newest(self, client_id: ClientId) -> Registration | Unsettled | None:
        outcome = await self._decide(client_id, ReadRegistration(client_id), self._patience_s / (2 * MAX_RETRIES))
        if outcome is None or outcome.outcome is None:
            return Unsettled(_NO_ANSWER)
        return _registration(client_id, outcome.registration)

    async def commit(self, registration: Registration, expected_revision: int) -> CommitResult:
        version = registration.version
        parts = (version.connected_at_ms, version.node, version.counter)
        client_id = registration.client_id
        claim = Claim(client_id, registration.connection_id, parts, expected_revision)
        outcome = await self._decide(client_id, claim, self._patience_s / 2, self._hold_claimed(client_id))
        if outcome is None:
            return Unsettled(_NO_ANSWER)
        if outcome.outcome is None:
            return Unsettled("this node writes nothing into the log of this client's vnode any more")
        if outcome.accepted:
            return Committed(outcome.revision)
        found = outcome.registration
        if found is not None and found.released_us and found.version < parts:
            return CommitLost(None)
        # One that was released lately and is newer stands in the way of an older one as if it were there.
        return CommitLost(None if found is None else _as_registration(client_id, found))

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        client_id = registration.client_id
        current = self._lookup(client_id)
        if current is not None and registration.channel == (current.node, current.epoch, current.connection_id):
            self._log.let_go(client_id)
        release = Release(client_id, registration.connection_id, goodbye=goodbye)
        outcome = await self._decide(client_id, release, self._patience_s, self._let_go_released(client_id))
        return outcome is not None and outcome.accepted

    def _hold_claimed(self, client_id: str) -> Callable[[ItemOutcome], None]:
        """The claim counts from where it stands in the log: also what else is told of that record finds it held."""

        def settled(outcome: ItemOutcome) -> None:
            if outcome.accepted:
                self._log.hold(client_id, outcome.revision)

        return settled

    def _let_go_released(self, client_id: str) -> Callable[[ItemOutcome], None]:
        """A claim without an outcome may have been accepted late: its channel is gone by now."""

        def settled(outcome: ItemOutcome) -> None:
            if outcome.accepted:
                self._log.let_go(client_id)

        return settled

    async def _decide(
        self, client_id: str, item: Item, patience_s: float, settled: Callable[[ItemOutcome], None] | None = None
    ) -> ItemOutcome | None:
        """What became of an item; None if that is not known within the patience."""
        done: asyncio.Future[ItemOutcome | None] = asyncio.get_running_loop().create_future()

        def decided(outcome: ItemOutcome) -> None:
            if settled is not None:
                settled(outcome)
            if not done.done():
                done.set_result(outcome)

        timer = self._timers.call_later(patience_s, lambda: None if done.done() else done.set_result(None))
        self._log.add(client_id, item, decided)
        try:
            return await done
        finally:
            timer.cancel()


def _registration(client_id: ClientId, row: RegistrationRow | None) -> Registration | None:
    """A registration that counts; one that was released is none."""
    return None if row is None or row.released_us else _as_registration(client_id, row)


def _as_registration(client_id: ClientId, row: RegistrationRow) -> Registration:
    version = ChannelVersion(*row.version)
    return Registration(client_id, row.node, row.connection_id, version, row.epoch, row.revision)
