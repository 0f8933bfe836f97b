"""The items of a record: what a node proposes for one vnode, each with what the rule that decides it needs.

    kind  item         fields behind the version, u8 = 1
    ────  ───────────  ─────────────────────────────────────────────────────────────────────────────────────────────
    01    message      session u16 │ flags u8: 1 packet id, 2 number, 4 user │ packet u16 │ number i64 │ user text
                       │ the message (`records/messages.py`), with zeros for its place
    02    session step see `session_steps.py`
    10    claim        session id text │ connection u64 │ flags u8: 1 version, 2 expected
                       │ connected at u64 (ms), node u32, counter u64 │ expected u64
    11    release      session id text │ connection u64 │ goodbye u8
    12    read         session id text
    13    will         session id text │ revision u64
    14    expire       session id text │ ends i64 (µs)
    20    closed       node u32 │ before u64
    21    lead         nothing
    22    resign       nothing
    23    tick         nothing
    30    assign       group text │ shard u16 │ position i64 │ member text │ revision u64
    31    unassign     group text │ shard u16 │ position i64
    40    border       zone text │ number u32 │ not before i64 │ layout text │ parameters │ patterns blob
    41    drop         zone text │ number u32
    42    horizon      topic blob │ version i64
    50    settings     control u64 │ the settings (`settings.py`)
    51    level        level u16
    52    holders      control u64 │ nodes u16, each u32

Kinds are hexadecimal. What a flag does not announce is not there. The rules are in `durable/state_machine`. A new field
is a new version of its item, and a new kind or version raises the level of a record.

A message, its incoming QoS 2 packet id and its number are one item: a record may end between any two items, and an
id or a number without its message would be acknowledged and lost.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model.message import Message
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.cluster.settings import VnodeSettings
from holdfast.records.fields import ValueRecord
from holdfast.records.generations import Parameter

#: When the transport of a channel connected (ms), on which node, and its counter there: `ChannelVersion` as it is kept.
VersionParts = tuple[int, int, int]


class MessageItem(ValueRecord):
    """A message of a session, with the packet id that is taken with it and the number that its client gave it."""

    def __init__(
        self, session: int, message: Message, *, packet_id: int = 0, number: int = -1, user: str | None = None
    ) -> None:
        #: Its place in the record's table of sessions.
        self.session: Final = session
        self.message: Final = message
        #: Of an incoming QoS 2 message of a stored session; 0 for none.
        self.packet_id: Final = packet_id
        #: The client's own number of the message; -1 for none. Numbers are counted by client id, and by user if given.
        self.number: Final = number
        self.user: Final = user

    def _fields(self) -> tuple[object, ...]:
        return (self.session, self.message, self.packet_id, self.number, self.user)


@dataclass(frozen=True)
class Claim:
    """Register a connection of the writing node in place of the registration at revision `expected` (0: of none).

    Without a version or `expected` neither is compared: the order of the log decides.
    """

    session_id: str
    connection_id: int
    version: VersionParts | None
    expected: int | None


@dataclass(frozen=True)
class Release:
    """A connection of the writing node has ended, with a goodbye of its client or without."""

    session_id: str
    connection_id: int
    goodbye: bool


@dataclass(frozen=True)
class ReadRegistration:
    """Who is registered, where this item stands in the log?"""

    session_id: str


@dataclass(frozen=True)
class WillDue:
    """Publish the will of a session that was left at this revision, if its time has come."""

    session_id: str
    revision: int


@dataclass(frozen=True)
class Expire:
    """End a session without a connection that ends at this time, if that has come."""

    session_id: str
    ends_us: int


@dataclass(frozen=True)
class Closed:
    """The epochs of a node below `before` count no longer."""

    node: int
    before: int


@dataclass(frozen=True)
class Lead:
    """The writing node wants to lead the vnode."""


@dataclass(frozen=True)
class Resign:
    """The writing node leads the vnode no longer."""


@dataclass(frozen=True)
class Tick:
    """The writing node is there, and applies the vnode's log."""


@dataclass(frozen=True)
class Assign:
    """A QoS 2 message of a group goes to this member: a session, and the revision of the claim that began it."""

    group: str
    shard: int
    position_us: int
    member: str
    member_revision: int


@dataclass(frozen=True)
class Unassign:
    """An assignment below the group's progress is settled."""

    group: str
    shard: int
    position_us: int


@dataclass(frozen=True)
class Border:
    """A generation of a zone's shard begins, not below a position if that is given."""

    zone: str
    number: int
    layout: str
    parameters: dict[str, Parameter]
    patterns: bytes = b""
    not_before_us: int = 0


@dataclass(frozen=True)
class DropGeneration:
    """A sealed generation of a zone's shard goes."""

    zone: str
    number: int


@dataclass(frozen=True)
class Horizon:
    """Exactly this version of a retained message, or of its removal, goes."""

    topic: bytes
    version: int


@dataclass(frozen=True)
class ChangeSettings:
    """The zones of the vnode from here on, decided at this sequence of the control log."""

    control: int
    settings: VnodeSettings


@dataclass(frozen=True)
class Level:
    """Records of the vnode may have this level from here on."""

    level: int


@dataclass(frozen=True)
class Holders:
    """The nodes that apply the vnode from here on, decided at this sequence of the control log."""

    control: int
    nodes: tuple[int, ...]


Item = (
    MessageItem
    | StepItem
    | Claim
    | Release
    | ReadRegistration
    | WillDue
    | Expire
    | Closed
    | Lead
    | Resign
    | Tick
    | Assign
    | Unassign
    | Border
    | DropGeneration
    | Horizon
    | ChangeSettings
    | Level
    | Holders
)
