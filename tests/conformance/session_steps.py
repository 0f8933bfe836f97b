"""Steps of sessions, as Hypothesis draws them."""

from hypothesis import strategies as st

from holdfast.durable.sessions.session_store import (
    DropIncoming,
    DropInflight,
    DropMember,
    DropRetainedProgress,
    DropSession,
    DropSubscription,
    KeepAssignments,
    KeepGroup,
    KeepIncoming,
    KeepInflight,
    KeepMember,
    KeepReplay,
    KeepRetainedProgress,
    KeepSession,
    KeepSubscription,
    PacketStep,
    ReleaseInflight,
    SessionStep,
    keep_progress,
)
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedQueued
from holdfast.model.protocol import MAX_U32
from holdfast.model.will import StoredWill
from holdfast.records.session.assignments import DoneAssignments
from holdfast.records.session.groups import GroupRecord
from holdfast.records.session.progress import Progress, ProgressEntry
from holdfast.records.session.retained_progress import RetainedPlace, RetainedProgress
from holdfast.records.session.session_record import SessionRecord
from holdfast.records.session.sessions import ReplayProgress
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord

FILTERS = [b"a", b"a/+", b"#", b"$share/g/a/#", "grün/+".encode()]

#: Client ids that are prefixes of each other, or hold what a key might use as a separator.
client_ids = st.sampled_from(["a", "ab", "a\0b", "a/b", "ü", "x" * 300])
packet_ids = st.integers(1, 4)
expiries_s = st.sampled_from([1, 5, 60, MAX_U32])
times_us = st.integers(1, 50).map(lambda seconds: seconds * 1_000_000)


wills = st.builds(
    StoredWill,
    st.sampled_from([b"w", "m/ü".encode()]),
    st.binary(max_size=5),
    st.integers(0, 2),
    retain=st.booleans(),
    properties=st.sampled_from([b"", b"\x01\x01"]),
    delay_s=st.sampled_from([0, 7, MAX_U32]),
    expiry_s=st.sampled_from([-1, 0, MAX_U32]),
)
session_records = st.builds(
    SessionRecord,
    expiry_s=expiries_s,
    disconnected_us=st.just(0) | times_us,
    will=st.none() | wills,
    queue=st.sampled_from(["", "", "journal"]),
)
topics = st.sampled_from([b"a", "a/ü".encode()])
places = st.builds(RetainedPlace, topics, times_us, st.lists(st.integers(1, 268_435_455), max_size=2).map(tuple))
entries = st.one_of(
    st.builds(ProgressEntry, packet_ids, st.integers(1, 2), st.integers(0, 3), times_us),
    st.builds(ProgressEntry, packet_ids, st.just(1), st.just(0), st.just(0), places),
)
progresses = st.builds(
    Progress,
    st.dictionaries(st.integers(0, 3), times_us, max_size=3),
    st.lists(entries, max_size=3),
    st.integers(0, 65_535),
)


@st.composite
def owed_messages(draw: st.DrawFn) -> Owed:
    message = Message(
        draw(topics),
        draw(st.binary(max_size=20)),
        2,
        ClientId(draw(st.sampled_from(["", "p"]))),
        draw(times_us),
        retain=draw(st.booleans()),
        properties=draw(st.sampled_from([b"", b"\x01\x01"])),
        expires_us=draw(st.just(0)),
    )
    identifiers = tuple(draw(st.lists(st.integers(1, 268_435_455), max_size=3)))
    if draw(st.booleans()):
        return OwedQueued(message, 2, retain=draw(st.booleans()), identifiers=identifiers, serial=draw(times_us))
    return Owed(
        message,
        2,
        retain=draw(st.booleans()),
        identifiers=identifiers,
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
        draw(st.sampled_from([0, 1, 65_535])),
    )


class Drawn:
    """Turns drawn intentions into steps as a broker makes them: each knows the record that it replaces."""

    def __init__(self) -> None:
        self._records: dict[str, SessionRecord] = {}
        self._order = 0

    def step(self, client_id: str, what: object) -> SessionStep | None:
        before = self._records.get(client_id)
        if isinstance(what, SessionRecord):
            self._records[client_id] = what
            return KeepSession(client_id, what, before)
        if before is None:
            return None
        if what is None:
            del self._records[client_id]
            return DropSession(client_id, before)
        if isinstance(what, SubscriptionRecord):
            return KeepSubscription(client_id, what)
        if isinstance(what, bytes):
            return DropSubscription(client_id, what)
        if isinstance(what, Progress):
            return keep_progress(client_id, what)
        if isinstance(what, ReplayProgress):
            return KeepReplay(client_id, FILTERS[0], what)
        if isinstance(what, RetainedProgress):
            return KeepRetainedProgress(client_id, FILTERS[0], what)
        if isinstance(what, GroupRecord):
            return KeepGroup(client_id, what)
        if isinstance(what, DoneAssignments):
            return KeepAssignments(client_id, what)
        if what is DropRetainedProgress:
            return DropRetainedProgress(client_id, FILTERS[0])
        assert isinstance(what, tuple)
        kind, packet_id, *rest = what
        if kind in (KeepMember, DropMember):
            of_member: SessionStep = kind(client_id, packet_id)
            return of_member
        if kind is KeepInflight:
            self._order += 1
            return KeepInflight(client_id, packet_id, rest[0], self._order)
        if kind is DropInflight:
            return DropInflight(client_id, packet_id, *rest)
        made: PacketStep = kind(client_id, packet_id)
        return made


_intentions: st.SearchStrategy[tuple[str, object]] = st.tuples(
    client_ids,
    st.one_of(
        session_records,
        st.none(),
        subscription_records(),
        st.sampled_from(FILTERS),
        progresses,
        st.builds(
            ReplayProgress,
            st.dictionaries(st.integers(0, 3), times_us, max_size=3),
            times_us,
            joined=st.booleans(),
        ),
        st.builds(
            ReplayProgress,
            st.dictionaries(st.integers(0, 3), times_us, max_size=3),
            times_us,
            joined=st.booleans(),
            speed=st.integers(1, 999_999_999_999_999),
            at_us=times_us,
        ),
        st.builds(RetainedProgress, times_us, topics, topics),
        st.builds(RetainedProgress, times_us, topics, topics, st.just(((0, 7), (3, 2**40)))),
        st.just(DropRetainedProgress),
        st.builds(
            GroupRecord,
            times_us,
            replaying=st.booleans(),
            steal_after_us=st.integers(0, 604_800_000_000),
            unlisted=st.booleans(),
        ),
        st.tuples(st.sampled_from([KeepMember, DropMember]), client_ids),
        st.builds(DoneAssignments, st.integers(0, 3), st.integers(0, 2**48), st.lists(st.just(2**49)).map(tuple)),
        st.tuples(st.just(KeepInflight), packet_ids, owed_messages()),
        st.tuples(st.just(DropInflight), packet_ids, st.integers(0, 3), st.just(0) | times_us),
        st.tuples(st.sampled_from([ReleaseInflight, KeepIncoming, DropIncoming]), packet_ids),
    ),
)


def _steps(intentions: list[tuple[str, object]]) -> list[SessionStep]:
    drawn = Drawn()
    made = [drawn.step(client_id, what) for client_id, what in intentions]
    return [step for step in made if step is not None]


step_lists = st.lists(_intentions, max_size=40).map(_steps)
