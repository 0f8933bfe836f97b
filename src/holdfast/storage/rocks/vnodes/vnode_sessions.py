"""Sessions and publish numbers of all vnodes of a node: what belongs to a client is in the vnode of its session id.

The state machine decides what they are, and `RocksVnode` writes it. They are only read here. A group is a session: its
vnode is that of the session id that it is stored under.
"""

import heapq
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, TypeVar

from holdfast.durable.sessions.session_store import StoredSession, StoredShares
from holdfast.durable.state_machine.tables import META
from holdfast.model.errors import MisuseError
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.meta_keys import number_key
from holdfast.records.session.numbers import decode_number
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode

_Entry = TypeVar("_Entry", str, tuple[int, str])


class HeldVnodes:
    """The vnodes that a node has, of all that the cluster has."""

    def __init__(self, count: int, held: Mapping[int, RocksVnode]) -> None:
        self._count: Final = count
        self._held: Final = held

    def of(self, session_id: str) -> RocksVnode:
        """The vnode of a session. MisuseError if another node has it: whether there is a session is not known here."""
        number = vnode_of(session_id, self._count)
        vnode = self._held.get(number)
        if vnode is None:
            raise MisuseError(f"session {session_id!r} is in vnode {number}, which this node does not hold")
        return vnode

    def all(self) -> Iterable[RocksVnode]:
        return self._held.values()


class VnodeSessions:
    """A `SessionStore` by shape: every session of every vnode that the node holds. Lists are merged in their order."""

    def __init__(self, vnodes: HeldVnodes) -> None:
        self._vnodes: Final = vnodes

    def record(self, client_id: str) -> SessionRecord | None:
        return self._vnodes.of(client_id).sessions.record(client_id)

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:
        return self._vnodes.of(client_id).sessions.load(client_id, limit)

    def shares(self, client_id: str) -> StoredShares | None:
        """What groups ask for; None if no session is stored."""
        return self._vnodes.of(client_id).sessions.shares(client_id)

    def expiring(self, before_us: int, limit: int) -> list[str]:
        ends = _merge([vnode.sessions.ends(before_us, limit) for vnode in self._vnodes.all()], limit)
        return [client_id for _ends_us, client_id in ends]

    def connected(self, after: str, limit: int) -> list[str]:
        return _merge([vnode.sessions.connected(after, limit) for vnode in self._vnodes.all()], limit)

    def with_external_queue(self, after: str, limit: int) -> list[str]:
        return _merge([vnode.sessions.with_external_queue(after, limit) for vnode in self._vnodes.all()], limit)

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        return _merge([vnode.sessions.waiting_wills(after_us, after, limit) for vnode in self._vnodes.all()], limit)

    def count(self) -> int:
        return sum([vnode.sessions.count() for vnode in self._vnodes.all()])

    def positions(self, client_id: str) -> dict[int, int]:
        """The places in the log that a session names, by shard the last one."""
        return self._vnodes.of(client_id).positions(client_id)

    def missing(self) -> int:
        """Messages in flight that retention had removed when they were needed again."""
        return sum([vnode.sessions.missing for vnode in self._vnodes.all()])


class VnodeNumbers:
    """A `NumberStore` by shape: the last number of each publisher, as of what was applied."""

    def __init__(self, vnodes: HeldVnodes) -> None:
        self._vnodes: Final = vnodes

    def last(self, key: str) -> int:
        # The client id stands in front of the user (`numbers_key`).
        client_id, _separator, _user = key.partition("\0\0")
        value = self._vnodes.of(client_id).get(META, number_key(key))
        return -1 if value is None else decode_number(value).number


def _merge(lists: list[list[_Entry]], limit: int) -> list[_Entry]:
    """The first entries of lists that are sorted each."""
    return list(islice(heapq.merge(*lists), limit))
