"""The channel registry: which channel of a client id is the one that counts, anywhere in the cluster.

A channel registers by one compare-and-set on its client id. Who wins is settled by versions: the newest stays.
There are two ways to look. The local view is at hand and may lag; the real one costs a round trip and does not.

    version      18bcfe56800 . 2 . 1f
                 ───────────   ─   ──
                 connected at  │   counter of that node
                 (ms, hex)     node number

This module must not know how a registry of several nodes is stored, nor what a channel does once it is registered.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.model.clock import Clock
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId

#: The revision of a client id without a registered channel. Real revisions start above it.
NOBODY: Final = 0

#: How long a takeover may take until it is registered, unless the caller says otherwise.
PATIENCE_S: Final = 5.0

_MS_US: Final = 1000
#: Counters of one life of a node lie below this bit, those of its next life above: they never meet.
_EPOCH_SHIFT: Final = 32
#: Set in the counter of a version whose time a client gave. Never change.
_FROM_CLIENT: Final = 1 << 62


class ChannelVersion:
    """When a channel's transport connected, made unique. Compared, never interpreted.

    1. Versions are totally ordered: by time, then node, then counter.
    2. Two channels never have equal versions: nodes differ in number, and a node never repeats a counter.
    3. A version whose time its client gave moves no clock: `is_from_client`.
    """

    def __init__(self, connected_at_ms: int, node: int, counter: int) -> None:
        self.connected_at_ms: Final = connected_at_ms
        self.node: Final = node
        self.counter: Final = counter

    def encode(self) -> str:
        """A short text: `decode_version` reads it back."""
        return f"{self.connected_at_ms:x}.{self.node:x}.{self.counter:x}"

    @property
    def is_from_client(self) -> bool:
        return is_from_client((self.connected_at_ms, self.node, self.counter))

    def at_client_time(self, connected_at_ms: int) -> "ChannelVersion":
        """The same channel, at the time that its client gives."""
        return ChannelVersion(connected_at_ms, self.node, self.counter | _FROM_CLIENT)

    def _key(self) -> tuple[int, int, int]:
        return (self.connected_at_ms, self.node, self.counter)

    def __lt__(self, other: "ChannelVersion") -> bool:
        return self._key() < other._key()

    def __le__(self, other: "ChannelVersion") -> bool:
        return self._key() <= other._key()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChannelVersion) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ChannelVersion({self.encode()})"


def is_from_client(version: tuple[int, int, int]) -> bool:
    """Whether the time of a version, given by its parts, came from a client: no clock of a node follows it."""
    return bool(version[2] & _FROM_CLIENT)


def decode_version(text: str) -> ChannelVersion:
    """The version that `encode` wrote; PermanentError for any other text."""
    parts = text.split(".")
    if len(parts) == 3:
        try:
            version = ChannelVersion(int(parts[0], 16), int(parts[1], 16), int(parts[2], 16))
        except ValueError:
            pass
        else:
            # One form per version, so that equal versions are equal texts: no signs, spaces, zeros in front.
            if version.encode() == text and "-" not in text:
                return version
    raise PermanentError(f"{text!r} is not a channel version")


class NodeLife:
    """One life of a node: its number, and the epoch that a later life does not have. Both are 0 without a cluster.

    A node that was fenced and joins its cluster again begins another life: its epoch changes.
    """

    def __init__(self, node: int = 0, epoch: int = 0) -> None:
        self.node: Final = node
        self.epoch = epoch


class VersionClock:
    """Gives versions to the channels of one node: a hybrid logical clock.

    1. Each version is above every one it gave before and every one it has seen, whatever the wall clock does. Versions
       with a time that a client gave are left aside: one client could carry the clock of all nodes away.
    """

    def __init__(self, clock: Clock, node: int, *, epoch: int = 0) -> None:
        """`epoch` counts the node's lives, so that a restarted one does not repeat a counter."""
        self._clock: Final = clock
        self._node: Final = node
        self._counter = epoch << _EPOCH_SHIFT
        self._latest = ChannelVersion(0, 0, 0)

    def next(self) -> ChannelVersion:
        """The version of a channel whose transport connected now."""
        self._counter += 1
        at_ms = max(self._clock.wall_us() // _MS_US, self._latest.connected_at_ms)
        version = ChannelVersion(at_ms, self._node, self._counter)
        if version <= self._latest:
            # Same millisecond and a lower node number: what was seen came first, so time moves on for it.
            version = ChannelVersion(at_ms + 1, self._node, self._counter)
        self._latest = version
        return version

    def seen(self, version: ChannelVersion) -> None:
        """Another node gave this version: never fall behind it."""
        if self._latest < version and not version.is_from_client:
            self._latest = version


class Registration:
    """A channel as the registry knows it. Written out, as all that is made once per connect: in compiled code a
    frozen dataclass costs ten times as much.

    1. `(node, epoch, connection_id)` names one channel, and never another.
    2. `revision` is the registry's number of the commit, `NOBODY` before it. Revisions only grow, so it fences:
       work for a session that carries a lower one is dropped.
    """

    def __init__(
        self,
        client_id: ClientId,
        node: int,
        connection_id: int,
        version: ChannelVersion,
        epoch: int = 0,
        revision: int = NOBODY,
    ) -> None:
        self.client_id: Final = client_id
        self.node: Final = node
        self.connection_id: Final = connection_id
        self.version: Final = version
        self.epoch: Final = epoch
        self.revision: Final = revision

    def _fields(self) -> tuple[str, int, int, ChannelVersion, int, int]:
        return (self.client_id, self.node, self.connection_id, self.version, self.epoch, self.revision)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Registration) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Registration({self.client_id!r}, node={self.node}, connection_id={self.connection_id}, "
            f"version={self.version!r}, epoch={self.epoch}, revision={self.revision})"
        )

    def is_of(self, life: NodeLife) -> bool:
        """Whether the channel is of this life of this node. Elsewhere another channel may have its number."""
        return self.node == life.node and self.epoch == life.epoch

    @property
    def channel(self) -> tuple[int, int, int]:
        """What names the channel."""
        return (self.node, self.epoch, self.connection_id)

    def same_channel(self, other: "Registration | None") -> bool:
        """Whether both speak of one channel, committed or not."""
        return other is not None and self.channel == other.channel

    def at_revision(self, revision: int) -> "Registration":
        """The same channel, committed."""
        return Registration(self.client_id, self.node, self.connection_id, self.version, self.epoch, revision)


@dataclass
class Committed:
    """The channel is registered."""

    revision: int


@dataclass(frozen=True)
class CommitLost:
    """Nothing was written, because the registry held something else than expected."""

    current: Registration | None


@dataclass(frozen=True)
class Unsettled:
    """No answer, or none that says which: it may have been written, or may yet be. Read again to find out, unless this
    is `final`: then the patience that was given is used up.
    """

    why: str
    final: bool = False


CommitResult = Committed | CommitLost | Unsettled


class Registry(Protocol):
    """One committed channel per client id.

    1. At most one registration exists per client id.
    2. Every commit has a higher revision than all before it.
    3. Commits, removals and real reads of one client id happen one after another (they are linearizable).
    """

    def local_newest(self, client_id: ClientId) -> Registration | None:
        """Who is registered, as far as this node has heard. Costs nothing, may lag."""

    async def read_newest(self, client_id: ClientId, patience_s: float = PATIENCE_S) -> Registration | Unsettled | None:
        """Who is registered really. Unsettled if that is not known within the patience."""

    async def commit(
        self, registration: Registration, expected_revision: int, patience_s: float = PATIENCE_S
    ) -> CommitResult:
        """Register this channel in place of the one at `expected_revision`, or of none (`NOBODY`).

        Unsettled if there is no outcome within the patience.

        Requires: the version is above that of the registration which it replaces.
        Ensures: after `Committed` it is the only one; after `Lost` nothing has changed.
        Survives: what the implementation says.
        """

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:
        """Take this channel out; whether it was in. TransientError if that cannot be known now.

        With a goodbye of its client the will of its session goes, where the registry decides about that.
        Ensures: a registration of any other channel stays, above all a newer one. The revision is not compared,
        so that a channel whose commit never settled can be taken out as well.
        """


class MemoryRegistry(Registry):
    """One map, the whole truth on one node and the model for those that span several. Survives: nothing.

    The local view is the real one, no call waits, none is ever unsettled.

    1. An entry stands under its own client id.
    2. Revisions of entries are distinct, above `NOBODY`, and at most the last one given out.
    """

    def __init__(self) -> None:
        self._by_client: Final[dict[ClientId, Registration]] = {}
        self._revision = NOBODY

    def local_newest(self, client_id: ClientId) -> Registration | None:
        return self._by_client.get(client_id)

    async def read_newest(
        self,
        client_id: ClientId,
        patience_s: float = PATIENCE_S,  # noqa: ARG002 - no call waits
    ) -> Registration | Unsettled | None:
        return self._by_client.get(client_id)

    async def commit(
        self,
        registration: Registration,
        expected_revision: int,
        patience_s: float = PATIENCE_S,  # noqa: ARG002 - no call waits
    ) -> CommitResult:
        current = self._by_client.get(registration.client_id)
        if expected_revision != (NOBODY if current is None else current.revision):
            return CommitLost(current)
        if current is not None and registration.version <= current.version:
            raise MisuseError(f"{registration} would replace {current}, which is not older")
        self._revision += 1
        self._by_client[registration.client_id] = registration.at_revision(self._revision)
        return Committed(self._revision)

    async def remove(self, registration: Registration, *, goodbye: bool = False) -> bool:  # noqa: ARG002 - no wills here
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
