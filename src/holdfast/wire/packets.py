"""Packets as immutable objects: what the codec decodes to and encodes from.

MQTT 3 has no properties and hardly any reasons. Decoding fills in what MQTT 5 would say;
encoding for MQTT 3 leaves out what that version has no room for.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model.reasons import SUCCESS
from holdfast.topics.filters import TopicFilter
from holdfast.wire.properties import NO_PROPERTIES, Properties


@dataclass(frozen=True)
class Will:
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect:
    """Written out because it is made once per connection: see `Publish`."""

    def __init__(
        self,
        version: int,
        client_id: str,
        clean_start: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        user_name: str | None = None,
        password: bytes | None = None,
        properties: Properties = NO_PROPERTIES,
        bridge: bool = False,
    ) -> None:
        self.version: Final = version
        self.client_id: Final = client_id
        self.clean_start: Final = clean_start
        self.keep_alive_s: Final = keep_alive_s
        self.will: Final = will
        self.user_name: Final = user_name
        self.password: Final = password
        self.properties: Final = properties
        #: MQTT 3: another broker, which says so in the protocol level.
        self.bridge: Final = bridge

    def _fields(self) -> tuple[int, str, bool, int, Will | None, str | None, bytes | None, Properties, bool]:
        return (
            self.version,
            self.client_id,
            self.clean_start,
            self.keep_alive_s,
            self.will,
            self.user_name,
            self.password,
            self.properties,
            self.bridge,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connect) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        # Without the password: what is printed ends in logs.
        return (
            f"Connect(version={self.version}, client_id={self.client_id!r}, clean_start={self.clean_start}, "
            f"keep_alive_s={self.keep_alive_s}, will={self.will!r}, user_name={self.user_name!r}, "
            f"properties={self.properties!r}, bridge={self.bridge})"
        )


@dataclass(frozen=True)
class Connack:
    #: For MQTT 3 one of its six return codes.
    reason: int = SUCCESS
    session_present: bool = False
    properties: Properties = NO_PROPERTIES


class Publish:
    """A message on its way. Written out because it is made far more often than the others:
    this costs 0.1 µs in compiled code, a frozen dataclass 1 µs.

    1. `packet_id` is 0 exactly for QoS 0.
    2. `topic` may be empty in MQTT 5 only, where a topic alias stands for it.
    """

    def __init__(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        packet_id: int = 0,
        *,
        retain: bool = False,
        dup: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        self.topic: Final = topic
        self.payload: Final = payload
        self.qos: Final = qos
        self.packet_id: Final = packet_id
        self.retain: Final = retain
        self.dup: Final = dup
        self.properties: Final = properties

    def _fields(self) -> tuple[str, bytes, int, int, bool, bool, Properties]:
        return (self.topic, self.payload, self.qos, self.packet_id, self.retain, self.dup, self.properties)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publish) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Publish({self.topic!r}, {len(self.payload)} B, qos={self.qos}, packet_id={self.packet_id}, "
            f"retain={self.retain}, dup={self.dup}, properties={self.properties!r})"
        )


@dataclass(frozen=True)
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP: four packets of one shape, told apart by `kind`."""

    kind: int
    packet_id: int
    reason: int = SUCCESS
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Subscription:
    """One line of a SUBSCRIBE: a filter and its options."""

    filter: TopicFilter
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    #: 0 send retained messages, 1 only for a new subscription, 2 do not.
    retain_handling: int = 0


@dataclass(frozen=True)
class Subscribe:
    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Suback:
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Unsubscribe:
    packet_id: int
    filters: tuple[TopicFilter, ...]
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Unsuback:
    packet_id: int
    #: Empty for MQTT 3, whose UNSUBACK has none.
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Pingreq:
    pass


@dataclass(frozen=True)
class Pingresp:
    pass


@dataclass(frozen=True)
class Disconnect:
    reason: int = SUCCESS
    properties: Properties = NO_PROPERTIES


@dataclass(frozen=True)
class Auth:
    reason: int = SUCCESS
    properties: Properties = NO_PROPERTIES


Packet = (
    Connect
    | Connack
    | Publish
    | Ack
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
