"""The registries of `registry.mode = "eventual"` and `"both"`, over the map that nodes gossip and the ordered log.

               looked up in         claim                                   lock   map
    ─────────  ───────────────────  ──────────────────────────────────────  ─────  ────────────
    linear     the vnode's table    with version and expected revision      none   none
    both       the vnode's table    with version and expected revision      none   written, not read
    eventual   the map              without both: the order of the log      yes    written and read

`eventual` is how a registry without versions behaves: a node may not have heard of a channel, and an older connection
that is slow takes the place of a newer one. `both` is for the way from one to the other, node by node.
"""

from collections.abc import Callable, Coroutine
from typing import Final

from holdfast.cluster.node_requests import NodeRequests
from holdfast.cluster.registry.gossip_map import GossipMap
from holdfast.cluster.registry.log_registry import LogRegistry
from holdfast.cluster.registry.takeover_lock import LeaderLocks, TakeoverLock
from holdfast.cluster.vnodes.writer import Timers
from holdfast.durable.takeover.registry import (
    PATIENCE_S,
    ChannelVersion,
    CommitResult,
    Committed,
    NodeLife,
    Registration,
    Registry,
    Unsettled,
)
from holdfast.model.clock import Clock
from holdfast.model.ids import ClientId
from holdfast.records.cluster.control import BOTH, EVENTUAL, LINEAR

#: Below all others: a channel in the map has no version.
_NO_VERSION: Final = ChannelVersion(0, 0, 0)


class BothRegistry:
    """A `Registry` by shape: the linear one decides, and the map is written."""

    def __init__(self, linear: LogRegistry, channels: GossipMap) -> None:
        self._linear: Final = linear
        self._channels: Final = channels

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return self._linear.local_newest(client_id)

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        return await self._linear.read_newest(client_id, patience_s)

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        result = await self._linear.commit(registration, expected_revision, patience_s)
        if isinstance(result, Committed):
            self._channels.add(registration.client_id, registration.connection_id, result.revision)
        return result

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        self._channels.remove(registration.client_id, registration.connection_id)
        return await self._linear.remove(registration, goodbye=goodbye)


class GossipRegistry:
    """A `Registry` by shape: the map is looked at, and any claim counts."""

    def __init__(self, linear: LogRegistry, channels: GossipMap) -> None:
        self._linear: Final = linear
        self._channels: Final = channels

    def local_newest(self, client_id: ClientId) -> Registration | None:
        found = self._channels.newest(client_id)
        if found is None:
            return None
        node, epoch, connection, revision = found
        return Registration(client_id, node, connection, _NO_VERSION, epoch, revision)

    async def read_newest(
        self,
        client_id: ClientId,
        patience_s: float = PATIENCE_S,  # noqa: ARG002 - the map is at hand
    ) -> Registration | Unsettled | None:
        return self.local_newest(client_id)

    async def commit(
        self,
        registration: Registration,
        expected_revision: int,  # noqa: ARG002 - the order of the log decides
        patience_s: float = PATIENCE_S,
    ) -> CommitResult:
        result = await self._linear.claim_any(registration, patience_s)
        if isinstance(result, Committed):
            self._channels.add(registration.client_id, registration.connection_id, result.revision)
        return result

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        self._channels.remove(registration.client_id, registration.connection_id)
        return await self._linear.remove(registration, goodbye=goodbye)


class NodeRegistries:
    """What a node needs for its `registry.mode`: the registry, and for `both` and `eventual` the map and the lock.

    Every node answers for locks, whatever its own mode: it may lead a vnode for one that is `eventual`.
    """

    def __init__(
        self,
        mode: int,
        linear: LogRegistry,
        life: NodeLife,
        requests: NodeRequests,
        lives: Callable[[int, int], bool],
        leader_of: Callable[[str], int],
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._requests: Final = requests
        #: None in the mode `linear`.
        self.channels: Final = None if mode == LINEAR else GossipMap(life, requests, lives, timers)
        self.lock: Final = TakeoverLock(requests, leader_of, clock, timers) if mode == EVENTUAL else None
        self._locks: Final = LeaderLocks(lambda session_id: leader_of(session_id) == life.node, clock)
        self.registry: Final[Registry] = self._registry_of(mode, linear)

    def _registry_of(self, mode: int, linear: LogRegistry) -> Registry:
        if self.channels is None:
            return linear
        return BothRegistry(linear, self.channels) if mode == BOTH else GossipRegistry(linear, self.channels)

    async def start(self) -> Callable[[], Coroutine[object, object, None]] | None:
        """Hear others from now on; what has to run for as long as the node does, if anything."""
        await self._locks.start(self._requests)
        if self.channels is None:
            return None
        await self.channels.start()
        return self.channels.run

    def replaced(self, session_id: str, channel: tuple[int, int, int]) -> None:
        """A claim has replaced a channel, of this node or another."""
        if self.channels is not None:
            self.channels.replaced(session_id, channel)
