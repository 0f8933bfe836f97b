"""The channels of all nodes as each has heard of them: the map of `registry.mode = "eventual"` and `"both"`.

    own channels ── changes, once per loop iteration ──▶ all nodes
                 ── the whole list, every 30 s, and when a node that starts asks for it ──▶ all nodes

1. A node tells of the channels that it has, and of no others. What it tells replaces what it told before.
2. A message may be lost, or come late: then a channel is not known here, or one is that has ended, until the next whole
   list. So nothing rests on this map but the modes that are called eventual.
3. Every channel of the cluster costs memory here, some 450 bytes. The linear registry has none of it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.cluster.node_requests import NodeRequests
from holdfast.cluster.vnodes.writer import Timers
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.gossip import ASKS, CHANGES, WHOLE, Gossip, GossipEntry, decode_gossip, encode_gossip

_log = structlog.get_logger()

#: Between two whole lists.
WHOLE_S: Final = 30.0
#: Entries of one message: at most 64 KiB each, most have less than 100 bytes.
ENTRIES: Final = 64
#: The subject.
CHANNELS: Final = "channels"

#: Node, epoch, connection, revision.
KnownChannel = tuple[int, int, int, int]


class GossipMap:
    """Requires: `start`, and `run` for as long as the node is there."""

    def __init__(
        self, life: NodeLife, requests: NodeRequests, lives: Callable[[int, int], bool], timers: Timers
    ) -> None:
        """`lives` tells of an epoch of a node whether it is open: channels of closed ones are not shown."""
        self._life: Final = life
        self._requests: Final = requests
        self._lives: Final = lives
        self._timers: Final = timers
        #: By session id and node, the one that was heard of last at the end: epoch, connection, revision.
        self._known: Final[dict[str, dict[int, tuple[int, int, int]]]] = {}
        self._own: Final[dict[str, tuple[int, int]]] = {}
        #: What is told next: by session id.
        self._changed: Final[dict[str, GossipEntry]] = {}
        self._tells_whole = True
        self._asks = True
        #: Session ids of the whole list that a node is telling, as far as its parts have come in order.
        self._heard: Final[dict[int, tuple[int, set[str]]]] = {}
        self._wake: Final = asyncio.Event()

    async def start(self) -> None:
        await self._requests.hear(CHANNELS, self.received)
        self._wake.set()
        self._timers.call_later(WHOLE_S, self._tell_whole)

    # ---- channels

    def add(self, session_id: str, connection: int, revision: int) -> None:
        """A channel of this node is registered."""
        self._own[session_id] = (connection, revision)
        self._note(self._life.node, self._life.epoch, (session_id, connection, revision))
        self._tell((session_id, connection, revision))

    def remove(self, session_id: str, connection: int) -> None:
        """A channel of this node has ended, or was replaced."""
        own = self._own.get(session_id)
        if own is not None and own[0] == connection:
            del self._own[session_id]
            ended = (session_id, 0, own[1])
            self._note(self._life.node, self._life.epoch, ended)
            self._tell(ended)

    def replaced(self, session_id: str, channel: tuple[int, int, int]) -> None:
        """A claim has replaced a channel of any node."""
        if channel[:2] == (self._life.node, self._life.epoch):
            self.remove(session_id, channel[2])

    def newest(self, session_id: str) -> KnownChannel | None:
        """The channel of a session that was heard of last; None if none is known."""
        for node, (epoch, connection, revision) in reversed(self._known.get(session_id, {}).items()):
            if self._lives(node, epoch):
                return (node, epoch, connection, revision)
        return None

    def __len__(self) -> int:
        return len(self._known)

    # ---- telling

    def _tell(self, entry: GossipEntry) -> None:
        self._changed[entry[0]] = entry
        self._wake.set()

    def _tell_whole(self) -> None:
        self._timers.call_later(WHOLE_S, self._tell_whole)
        self._tells_whole = True
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for gossip in self._messages():
                try:
                    await self._requests.tell(CHANNELS, encode_gossip(gossip))
                except TransientError as error:
                    _log.info("channels are not told to other nodes", why=str(error))

    def _messages(self) -> list[Gossip]:
        node, epoch = self._life.node, self._life.epoch
        found: list[Gossip] = []
        if self._asks:
            found.append(Gossip(node, epoch, ASKS))
            self._asks = False
        if self._tells_whole:
            self._tells_whole = False
            self._changed.clear()
            parts = _parts([(session_id, *own) for session_id, own in self._own.items()])
            found += [Gossip(node, epoch, WHOLE, part, index, len(parts)) for index, part in enumerate(parts)]
        elif self._changed:
            found += [Gossip(node, epoch, CHANGES, part) for part in _parts(list(self._changed.values()))]
            self._changed.clear()
        return found

    # ---- hearing

    def received(self, body: bytes) -> None:
        """What any node tells. What cannot be read is passed over, with a warning."""
        try:
            gossip = decode_gossip(body)
        except PermanentError as error:
            _log.warning("channels of another node cannot be read", why=str(error))
            return
        if gossip.node == self._life.node:
            return
        if gossip.kind == ASKS:
            self._tells_whole = True
            self._wake.set()
            return
        for entry in gossip.entries:
            self._note(gossip.node, gossip.epoch, entry)
        if gossip.kind == WHOLE:
            self._whole(gossip)

    def _whole(self, gossip: Gossip) -> None:
        """Forget what a node does not tell any more, once all parts of its list have come."""
        if gossip.part == 0:
            self._heard[gossip.node] = (1, {entry[0] for entry in gossip.entries})
        else:
            next_part, told = self._heard.get(gossip.node, (0, set()))
            if next_part != gossip.part:
                self._heard.pop(gossip.node, None)
                return
            self._heard[gossip.node] = (next_part + 1, told | {entry[0] for entry in gossip.entries})
        if self._heard[gossip.node][0] == gossip.parts:
            told = self._heard.pop(gossip.node)[1]
            for session_id in [one for one, by_node in self._known.items() if gossip.node in by_node]:
                if session_id not in told:
                    self._forget(session_id, gossip.node)

    def _note(self, node: int, epoch: int, entry: GossipEntry) -> None:
        session_id, connection, revision = entry
        self._forget(session_id, node)
        if connection:
            self._known.setdefault(session_id, {})[node] = (epoch, connection, revision)

    def _forget(self, session_id: str, node: int) -> None:
        by_node = self._known.get(session_id)
        if by_node is not None:
            by_node.pop(node, None)
            if not by_node:
                del self._known[session_id]


def _parts(entries: list[GossipEntry]) -> list[tuple[GossipEntry, ...]]:
    """At least one, which may be empty."""
    return [tuple(entries[at : at + ENTRIES]) for at in range(0, len(entries), ENTRIES)] or [()]
