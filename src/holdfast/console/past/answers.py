"""What the history process answers, for the document of the API: the console passes it on and decodes none of it.

Bytes of any kind are shown: as text where they are text, else as base64.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class ShownBytes(msgspec.Struct, kw_only=True):
    """Either `text` or `base64`; a payload that is cut says how long it is."""

    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET
    cut: bool | UnsetType = UNSET
    bytes: int | UnsetType = UNSET


class ShownMessage(msgspec.Struct, kw_only=True):
    topic: ShownBytes
    payload: ShownBytes
    #: Of the whole payload.
    bytes: int
    qos: int
    retain: bool
    #: Who published it.
    client: str
    #: When it was stored: its position.
    at_us: int
    received_us: int
    #: Shard, position and serial; null of a retained message that the log does not have.
    place: str | None
    zone: str | None
    #: By their names in MQTT 5; the expiry is `expires_us`.
    properties: dict[str, Any]


class MessagePage(msgspec.Struct):
    messages: list[ShownMessage]
    #: Null where nothing is left to look through.
    next_cursor: str | None
    looked_through: int
    #: How many messages a search has to look through, where that is known.
    of: int | None
    #: Why it ended: `end`, `limit`, `time` or `looked_at`.
    stopped: str
    #: Messages of the range that retention removed, or that are lost by damage.
    lost_at_most: int
    #: Whether the moment lies ahead of now.
    ahead: bool
    as_of_us: int


class ShownState(ShownMessage, kw_only=True):
    """The newest message of a topic at a moment."""

    age_us: int


class StateAnswer(msgspec.Struct):
    at_us: int
    topics: list[ShownState]
    looked_back_to_us: int
    #: Why it looked no further back.
    stopped: str
    #: Whether every topic that had a message within the look-back is there.
    complete: bool
    ahead: bool
    as_of_us: int


class ChangedPlace(msgspec.Struct):
    """A place in a JSON payload; null where it is missing."""

    path: str
    a: Any
    b: Any


class ChangedTopic(msgspec.Struct):
    topic: ShownBytes
    a: ShownMessage
    b: ShownMessage
    paths: list[ChangedPlace]


class CompareAnswer(msgspec.Struct):
    a_us: int
    b_us: int
    came: list[ShownMessage]
    silent: list[ShownMessage]
    changed: list[ChangedTopic]
    #: Topics with the same payload at both moments.
    same: int
    stopped: str
    complete: bool
    ahead: bool
    as_of_us: int


class PlotSeries(msgspec.Struct):
    topic: str
    #: Of each column: its begin, the least, the largest and the last number, and how many there are.
    columns: list[tuple[int, float, float, float, int]]
    #: Messages without a number at the path.
    not_numbers: int
    complete_from_us: int


class PlotAnswer(msgspec.Struct):
    from_us: int
    to_us: int
    step_us: int
    series: list[PlotSeries]
    stopped: str
    lost_at_most: int
    ahead: bool
    as_of_us: int


class TopicRow(msgspec.Struct, kw_only=True):
    """A learned pattern, or a topic that was seen lately."""

    name: str
    is_pattern: bool
    messages: int | None
    last_us: int | None
    #: Of a name that cannot be shown as it is.
    raw: ShownBytes | UnsetType = UNSET


class TopicsAnswer(msgspec.Struct):
    topics: list[TopicRow]
    more: bool
    as_of_us: int


class RetainedMessage(ShownMessage, kw_only=True):
    stored_us: int


class RetainedPage(msgspec.Struct):
    retained: list[RetainedMessage]
    next_cursor: str | None
    #: How many topics have one, where that is known.
    count: int | None
    as_of_us: int


class ShownGeneration(msgspec.Struct):
    number: int
    layout: str
    shards: list[int]
    start_us: int
    #: Null while it is written to.
    end_us: int | None
    messages: int | None
    bytes: int | None


class ShownZone(msgspec.Struct):
    name: str
    filters: list[str]
    shards: list[int]
    layout: str | None
    generations: list[ShownGeneration]
    messages: int | None
    oldest_us: int | None
    newest_us: int | None
    #: Messages that retention removed, or that are lost by damage.
    dropped_at_most: int


class ZonesAnswer(msgspec.Struct):
    zones: list[ShownZone]
    as_of_us: int


class PatternRow(msgspec.Struct):
    zone: str
    shard: int
    generation: int
    pattern: str
    messages: int


class ShownLease(msgspec.Struct):
    """A lease, or one that retention broke: null is what the other kind has."""

    name: str
    #: By shard.
    positions: dict[str, int] | None
    behind_s: float | None
    renewed_us: int | None
    age_s: float | None
    broken_us: int | None
    why: str | None


class ShownEvent(msgspec.Struct):
    at_us: int
    reason: str
    client: str
    topic: str
    #: How often it happened in that second; 0 if that is not known.
    count: int
    detail: str
    #: The messages that it is about, where they lie in the log.
    shard: int | None
    from_us: int | None
    to_us: int | None


class EventDensity(msgspec.Struct):
    from_us: int
    to_us: int
    step_us: int
    counts: list[int]
    total: int


class EventPage(msgspec.Struct):
    items: list[ShownEvent]
    next_cursor: str | None
    matched: int
    counts_by_reason: dict[str, int]
    #: Null if it was not asked for.
    density: EventDensity | None
    ahead: bool
    as_of_us: int


class QueuePage(msgspec.Struct):
    messages: list[ShownMessage]
    next_cursor: str | None
    #: False if the queue lies outside the log.
    exact: bool
    stopped: str
    as_of_us: int


class OfflineSubscription(msgspec.Struct):
    filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    #: The subscription identifier.
    id: int | None
    since_us: int | None


class OfflineInflight(msgspec.Struct, kw_only=True):
    packet_id: int
    qos: int
    #: What it waits for.
    state: str
    #: Shard and position, `0/1700000000000000`, of what lies in the log.
    place: str | UnsetType = UNSET
    #: Missing if the message was erased, or retention has dropped it.
    topic: str | UnsetType = UNSET


class OfflineSession(msgspec.Struct):
    """A session as the files have it."""

    session_id: str
    user: str | None
    expiry_s: int
    disconnected_us: int | None
    connected: bool
    owed_at_most: int
    #: Where its queue is; empty for the log.
    queue: str
    subscriptions: list[OfflineSubscription]
    inflight: list[OfflineInflight]
    as_of_us: int


class ExplainedSubscription(msgspec.Struct):
    filter: str
    qos: int
    since_us: int


class ExplainedSession(msgspec.Struct):
    connected: bool
    disconnected_us: int | None
    expiry_s: int
    subscriptions: list[ExplainedSubscription]


class ExplainedEvent(msgspec.Struct, kw_only=True):
    time_us: int
    reason: str
    count: int
    client: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    shard: int | UnsetType = UNSET
    from_us: int | UnsetType = UNSET
    to_us: int | UnsetType = UNSET


class ExplainedMessage(msgspec.Struct, kw_only=True):
    """What became of a message for a client."""

    topic: str
    qos: int
    publisher: str
    received_us: int
    shard: int
    position_us: int
    state: str
    why: str
    matched: list[ExplainedSubscription]
    packet_id: int | UnsetType = UNSET
    expires_us: int | UnsetType = UNSET
    event: ExplainedEvent | UnsetType = UNSET


class ExplainAnswer(msgspec.Struct, kw_only=True):
    client: str
    #: Null of a client without a stored session.
    session: ExplainedSession | None
    messages: list[ExplainedMessage]
    events: list[ExplainedEvent]
    #: Messages of the filter since then.
    found: int | UnsetType = UNSET
    lost_by_retention_at_most: int | UnsetType = UNSET
    events_complete: bool | UnsetType = UNSET
    #: In a cluster: of which node the events are.
    events_of: str | UnsetType = UNSET
