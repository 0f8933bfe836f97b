"""Steps of sessions, as Hypothesis draws them."""

from hypothesis import strategies as st

from holdfast.durable.sessions import (
    DropIncoming,
    DropInflight,
    DropSession,
    DropSubscription,
    KeepIncoming,
    KeepInflight,
    KeepSession,
    KeepSubscription,
    ReleaseInflight,
    SessionRecord,
    Step,
)
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import MAX_U32
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.packets import Will
from holdfast.wire.properties import Properties

FILTERS = [b"a", b"a/+", b"#", b"$share/g/a/#", "grün/+".encode()]

#: Client ids that are prefixes of each other, or hold what a key might use as a separator.
client_ids = st.sampled_from(["a", "ab", "a\0b", "a/b", "ü", "x" * 300])
packet_ids = st.integers(1, 4)
expiries_s = st.sampled_from([1, 5, 60, MAX_U32])
times_us = st.integers(1, 50).map(lambda seconds: seconds * 1_000_000)


@st.composite
def session_records(draw: st.DrawFn) -> SessionRecord:
    will = draw(
        st.none()
        | st.builds(
            Will,
            topic=st.sampled_from(["w", "w/ü"]),
            payload=st.binary(max_size=5),
            qos=st.integers(0, 2),
            retain=st.booleans(),
            properties=st.sampled_from(
                [Properties(), Properties(will_delay_interval=7, user_properties=(("k", "v"), ("k", "w")))]
            ),
        )
    )
    return SessionRecord(
        expiry_s=draw(expiries_s),
        disconnected_us=draw(st.just(0) | times_us),
        will=will,
        will_mount=draw(st.sampled_from([b"", b"m/"])) if will is not None else b"",
    )


@st.composite
def owed_messages(draw: st.DrawFn) -> Owed:
    message = Message(
        draw(st.sampled_from([b"a", "a/ü".encode()])),
        draw(st.binary(max_size=20)),
        2,
        ClientId(draw(st.sampled_from(["", "p"]))),
        draw(times_us),
        retain=draw(st.booleans()),
        properties=draw(st.sampled_from([b"", b"\x01\x01"])),
        expires_us=draw(st.just(0)),
    )
    return Owed(
        message,
        2,
        retain=draw(st.booleans()),
        identifiers=tuple(draw(st.lists(st.integers(1, 268_435_455), max_size=3))),
        group=draw(st.sampled_from(["", "$share/g/a/#"])),
    )


@st.composite
def subscription_records(draw: st.DrawFn) -> SubscriptionRecord:
    return SubscriptionRecord(
        parse_filter(draw(st.sampled_from(FILTERS))),
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.integers(0, 2)),
        draw(st.sampled_from([0, 1, 268_435_455])),
        draw(times_us),
        draw(st.sampled_from([0, 3])),
    )


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(KeepSession, client_ids, session_records()),
    st.builds(DropSession, client_ids),
    st.builds(KeepSubscription, client_ids, subscription_records()),
    st.builds(DropSubscription, client_ids, st.sampled_from(FILTERS)),
    st.builds(KeepInflight, client_ids, packet_ids, owed_messages()),
    st.builds(ReleaseInflight, client_ids, packet_ids),
    st.builds(DropInflight, client_ids, packet_ids),
    st.builds(KeepIncoming, client_ids, packet_ids),
    st.builds(DropIncoming, client_ids, packet_ids),
)
