"""Hypothesis strategies for packets: everything the standards allow, by version and sender."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.model.protocol import (
    AUTH,
    CLIENT,
    CONNACK,
    CONNECT,
    DISCONNECT,
    MAX_U16,
    MAX_U32,
    MAX_VARINT,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    SERVER,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    V5,
    V31,
    V311,
    WILL,
)
from holdfast.model.reasons import SUCCESS, allowed_reasons
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.wire import properties as table
from holdfast.wire.packets import (
    Ack,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.wire.properties import NO_PROPERTIES, Properties

VERSIONS = (V31, V311, V5)

_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
text = st.text(_characters, max_size=12)
binary = st.binary(max_size=12)
packet_ids = st.integers(1, MAX_U16)
qos = st.integers(0, 2)

_levels = st.one_of(st.sampled_from(["a", "b", "plant", "", "$x", "é", "😀"]), st.text(_characters, max_size=4))
_plain_level = _levels.map(lambda level: level.replace("/", "").replace("+", "").replace("#", ""))
topic_names = st.lists(_plain_level, min_size=1, max_size=5).map("/".join).filter(bool)


@st.composite
def filter_texts(draw: st.DrawFn) -> str:
    """Valid filters, also shared and replaying ones."""
    levels = draw(st.lists(st.one_of(_plain_level, st.just("+")), max_size=4))
    if not levels or draw(st.booleans()):
        levels.append("#")
    inner = "/".join(levels) or "+"
    if inner.startswith(("$share", "$replay")):
        inner = "x" + inner
    if draw(st.integers(0, 4)) == 0:
        inner = f"$replay/{draw(st.sampled_from(['earliest', '-2h', '2026-07-01T00:00:00Z', 'nonsense']))}/{inner}"
    if draw(st.integers(0, 4)) == 0:
        inner = f"$share/{draw(st.sampled_from(['g', 'größe', '$']))}/{inner}"
    return inner


filters: SearchStrategy[TopicFilter] = filter_texts().map(lambda t: parse_filter(t.encode()))

_VALUES: dict[int, SearchStrategy[Any]] = {
    table.FLAG: st.integers(0, 1),
    table.U16_VALUE: st.integers(0, MAX_U16),
    table.U32_VALUE: st.integers(0, MAX_U32),
    table.VARINT: st.integers(1, MAX_VARINT),
    table.TEXT: text,
    table.BINARY: binary,
}


def _value(spec: table.PropertySpec, packet: int) -> SearchStrategy[Any]:
    if spec.kind == table.PAIR:
        return st.lists(st.tuples(text, text), min_size=1, max_size=3).map(tuple)
    if spec.identifier == table.SUBSCRIPTION_IDENTIFIER:
        return st.lists(_VALUES[table.VARINT], min_size=1, max_size=3 if packet == PUBLISH else 1).map(tuple)
    if spec.identifier == table.RESPONSE_TOPIC:
        return topic_names
    if spec.nonzero:
        return _VALUES[spec.kind].map(lambda number: number or 1)
    return _VALUES[spec.kind]


@st.composite
def properties(draw: st.DrawFn, packet: int, sender: int) -> Properties:
    """Any set of properties that `sender` may put into `packet`."""
    allowed = [spec for spec in table.PROPERTIES if packet in spec.packets and spec.sender & sender]
    if packet == PUBLISH and sender == CLIENT:
        allowed = [spec for spec in allowed if spec.identifier != table.SUBSCRIPTION_IDENTIFIER]
    if packet == DISCONNECT and sender == SERVER:
        allowed = [spec for spec in allowed if spec.name != "session_expiry_interval"]
    chosen = draw(st.lists(st.sampled_from(allowed), unique_by=lambda spec: spec.name, max_size=6))
    values = {spec.name: draw(_value(spec, packet)) for spec in chosen}
    if "authentication_data" in values:
        values.setdefault("authentication_method", draw(text))
    return Properties(**values)


def _properties(packet: int, version: int, sender: int) -> SearchStrategy[Properties]:
    return properties(packet, sender) if version == V5 else st.just(NO_PROPERTIES)


@st.composite
def connects(draw: st.DrawFn, version: int) -> Connect:
    will: Will | None = None
    if draw(st.booleans()):
        will_properties = draw(_properties(WILL, version, CLIENT))
        will = Will(draw(topic_names), draw(binary), draw(qos), draw(st.booleans()), will_properties)
    user_name = draw(st.none() | text)
    password = draw(st.none() | binary) if version == V5 or user_name is not None else None
    client_id = draw(text)
    clean_start = draw(st.booleans())
    if not client_id and (version == V31 or (version == V311 and not clean_start)):
        client_id = "c"
    return Connect(
        version,
        client_id,
        clean_start,
        draw(st.integers(0, MAX_U16)),
        will,
        user_name,
        password,
        draw(_properties(CONNECT, version, CLIENT)),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> Connack:
    codes = sorted(allowed_reasons(CONNACK, SERVER)) if version == V5 else range(6)
    reason = draw(st.sampled_from(list(codes)))
    present = draw(st.booleans()) and reason == SUCCESS and version != V31
    return Connack(reason, present, draw(_properties(CONNACK, version, SERVER)))


@st.composite
def publishes(draw: st.DrawFn, version: int, sender: int) -> Publish:
    level = draw(qos)
    found = draw(_properties(PUBLISH, version, sender))
    topic = draw(topic_names)
    if found.topic_alias is not None and draw(st.booleans()):
        topic = ""
    return Publish(
        topic,
        draw(st.binary(max_size=200)),
        level,
        draw(packet_ids) if level else 0,
        retain=draw(st.booleans()),
        dup=draw(st.booleans()) and level > 0,
        properties=found,
    )


@st.composite
def acks(draw: st.DrawFn, version: int, sender: int) -> Ack:
    kind = draw(st.integers(PUBACK, PUBCOMP))
    if version != V5:
        return Ack(kind, draw(packet_ids))
    reason = draw(st.sampled_from(sorted(allowed_reasons(kind, sender))))
    return Ack(kind, draw(packet_ids), reason, draw(properties(kind, sender)))


@st.composite
def subscribes(draw: st.DrawFn, version: int) -> Subscribe:
    lines: list[Subscription] = []
    for topic_filter in draw(st.lists(filters, min_size=1, max_size=4)):
        if version == V5:
            no_local = draw(st.booleans()) and not topic_filter.group
            handling = draw(st.integers(0, 2))
            lines.append(Subscription(topic_filter, draw(qos), no_local, draw(st.booleans()), handling))
        else:
            lines.append(Subscription(topic_filter, draw(qos)))
    return Subscribe(draw(packet_ids), tuple(lines), draw(_properties(SUBSCRIBE, version, CLIENT)))


@st.composite
def subacks(draw: st.DrawFn, version: int) -> Suback:
    codes = sorted(allowed_reasons(SUBACK, SERVER)) if version == V5 else [0, 1, 2, 0x80]
    reasons = draw(st.lists(st.sampled_from(codes), min_size=1, max_size=5))
    return Suback(draw(packet_ids), tuple(reasons), draw(_properties(SUBACK, version, SERVER)))


@st.composite
def unsubscribes(draw: st.DrawFn, version: int) -> Unsubscribe:
    chosen = draw(st.lists(filters, min_size=1, max_size=4))
    return Unsubscribe(draw(packet_ids), tuple(chosen), draw(_properties(UNSUBSCRIBE, version, CLIENT)))


@st.composite
def unsubacks(draw: st.DrawFn, version: int) -> Unsuback:
    if version != V5:
        return Unsuback(draw(packet_ids))
    codes = sorted(allowed_reasons(UNSUBACK, SERVER))
    reasons = draw(st.lists(st.sampled_from(codes), min_size=1, max_size=5))
    return Unsuback(draw(packet_ids), tuple(reasons), draw(properties(UNSUBACK, SERVER)))


@st.composite
def disconnects(draw: st.DrawFn, version: int, sender: int) -> Disconnect:
    if version != V5:
        return Disconnect()
    reason = draw(st.sampled_from(sorted(allowed_reasons(DISCONNECT, sender))))
    return Disconnect(reason, draw(properties(DISCONNECT, sender)))


@st.composite
def auths(draw: st.DrawFn, sender: int) -> Auth:
    codes = sorted(allowed_reasons(AUTH, sender) - ({SUCCESS} if sender == CLIENT else set()))
    reason = draw(st.sampled_from(codes))
    method = draw(text)
    found = draw(properties(AUTH, sender))
    values = {**found.present(), "authentication_method": method}
    return Auth(reason, Properties(**values))  # type: ignore[arg-type]


def packets(version: int, sender: int) -> SearchStrategy[Packet]:
    """Any packet that `sender` may send in this version."""
    both: list[SearchStrategy[Packet]] = [publishes(version, sender), acks(version, sender)]
    if sender == CLIENT:
        both += [connects(version), subscribes(version), unsubscribes(version), st.just(Pingreq())]
        both.append(disconnects(version, sender))
    else:
        both += [connacks(version), subacks(version), unsubacks(version), st.just(Pingresp())]
        if version == V5:
            both.append(disconnects(version, sender))
    if version == V5:
        both.append(auths(sender))
    return st.one_of(both)


#: (version, sender, packet)
any_packet: SearchStrategy[tuple[int, int, Packet]] = st.tuples(
    st.sampled_from(VERSIONS), st.sampled_from((CLIENT, SERVER))
).flatmap(lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), packets(*pair)))

PACKET_KINDS: dict[str, Callable[[int, int], SearchStrategy[Packet]]] = {
    "connect": lambda version, _sender: connects(version),
    "connack": lambda version, _sender: connacks(version),
    "publish": publishes,
    "ack": acks,
    "subscribe": lambda version, _sender: subscribes(version),
    "suback": lambda version, _sender: subacks(version),
    "unsubscribe": lambda version, _sender: unsubscribes(version),
    "unsuback": lambda version, _sender: unsubacks(version),
    "disconnect": disconnects,
    "auth": lambda _version, sender: auths(sender),
}
