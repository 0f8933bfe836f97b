"""The linear channel registry: registrations are rows of the vnodes' tables, and every change is an item of their logs.

    contract        here
    ──────────────  ──────────────────────────────────────────────────────────────
    local_newest    the table as it is applied on this node
    commit          `Claim`: decided where it stands in the log, the same on every node
    read_newest     `ReadRegistration`: what the table says where it stands
    remove          `Release`: behind everything that its channel has written

A claim without an outcome within the patience may still be accepted later. Whoever asked for it has it removed: the
`Release` stands behind the claim in the same writer, so that no registration without a channel stays. There is nothing
to read meanwhile: a read would stand behind the claim, and be answered after it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.vnodes.writer import ItemOutcome, Timers
from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.tables import CLUSTER, StateStore
from holdfast.durable.takeover.registry import (
    PATIENCE_S,
    ChannelVersion,
    CommitLost,
    CommitResult,
    Committed,
    Registration,
    Unsettled,
    is_from_client,
)
from holdfast.model.ids import ClientId
from holdfast.records.cluster.items import Claim, Item, ReadRegistration, Release, VersionParts
from holdfast.records.cluster.rows import (
    NEWEST_VERSION_KEY,
    RegistrationRow,
    decode_newest_version,
    decode_registration,
    encode_newest_version,
    registrations_after,
    session_of_registration,
)

_NO_ANSWER: Final = Unsettled("the log of this client's vnode does not answer", final=True)
_NO_WRITER: Final = Unsettled("this node writes nothing into the log of this client's vnode any more", final=True)
#: Registrations that are read at once at the start of a folder of an earlier version.
_SLICE: Final = 1000

#: Who is registered under a session id, by the tables of this node; None for no channel.
Lookup = Callable[[str], RegistrationRow | None]


class LogRegistry:
    """A `Registry` by shape. Survives: what the ordered logs survive."""

    def __init__(self, log: ClusterLog, lookup: Lookup, timers: Timers) -> None:
        self._log: Final = log
        self._lookup: Final = lookup
        self._timers: Final = timers

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return _registration(client_id, self._lookup(client_id))

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        outcome = await self._decide(client_id, ReadRegistration(client_id), patience_s)
        if outcome is None or outcome.outcome is None:
            return _NO_ANSWER
        return _registration(client_id, outcome.registration)

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        version = registration.version
        parts = (version.connected_at_ms, version.node, version.counter)
        client_id = registration.client_id
        outcome = await self._claim(Claim(client_id, registration.connection_id, parts, expected_revision), patience_s)
        if not isinstance(outcome, ItemOutcome):
            return outcome
        found = outcome.registration
        if found is not None and found.released_us and found.version < parts:
            return CommitLost(None)
        # One that was released lately and is newer stands in the way of an older one as if it were there.
        return CommitLost(None if found is None else _as_registration(client_id, found))

    async def claim_any(self, registration: Registration, patience_s: float) -> CommitResult:
        """Register this channel in place of any other: the order of the log decides, and no version."""
        claim = Claim(registration.client_id, registration.connection_id, None, None)
        outcome = await self._claim(claim, patience_s)
        if not isinstance(outcome, ItemOutcome):
            return outcome
        return Unsettled("the vnode takes no claim of this node", final=True)

    async def _claim(self, claim: Claim, patience_s: float) -> Committed | Unsettled | ItemOutcome:
        """What became of a claim; the outcome if it was refused."""
        outcome = await self._decide(claim.session_id, claim, patience_s, self._hold_claimed(claim.session_id))
        if outcome is None:
            return _NO_ANSWER
        if outcome.outcome is None:
            return _NO_WRITER
        return Committed(outcome.revision) if outcome.accepted else outcome

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        client_id = registration.client_id
        current = self._lookup(client_id)
        if current is not None and registration.channel == (current.node, current.epoch, current.connection_id):
            self._log.let_go(client_id)
        release = Release(client_id, registration.connection_id, goodbye=goodbye)
        outcome = await self._decide(client_id, release, PATIENCE_S, self._let_go_released(client_id))
        return outcome is not None and outcome.accepted

    def _hold_claimed(self, client_id: str) -> Callable[[ItemOutcome], None]:
        """The claim counts from where it stands in the log: also what else is told of that record finds it held."""

        def settled(outcome: ItemOutcome) -> None:
            if outcome.outcome is not None and outcome.accepted:
                self._log.hold(client_id, outcome.revision, has_replaced=client_id in outcome.outcome.replaced)

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


def load_newest_version(store: StateStore) -> VersionParts:
    """The greatest version that a clock of a node gave to a channel of this vnode, as of what is applied.

    One row is read. A folder of an earlier version has none: then all registrations are read, once.
    Requires: no record is being applied.
    """
    value = store.get(CLUSTER, NEWEST_VERSION_KEY)
    if value is not None:
        return decode_newest_version(value)
    newest = (0, 0, 0)
    after = ""
    while rows := store.scan(CLUSTER, *registrations_after(after), _SLICE):
        after = session_of_registration(rows[-1][0])
        versions = [decode_registration(value).version for _key, value in rows]
        newest = max([newest, *[version for version in versions if not is_from_client(version)]])
    changes = Changes()
    changes.into(CLUSTER).put(NEWEST_VERSION_KEY, encode_newest_version(newest))
    store.write(changes, [])
    return newest


def _registration(client_id: ClientId, row: RegistrationRow | None) -> Registration | None:
    """A registration that counts; one that was released is none."""
    return None if row is None or row.released_us else _as_registration(client_id, row)


def _as_registration(client_id: ClientId, row: RegistrationRow) -> Registration:
    version = ChannelVersion(*row.version)
    return Registration(client_id, row.node, row.connection_id, version, row.epoch, row.revision)
