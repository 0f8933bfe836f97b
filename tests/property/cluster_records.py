"""Records of a cluster, as Hypothesis draws them."""

from hypothesis import strategies as st

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster import session_steps as steps
from holdfast.records.cluster.items import (
    Assign,
    Border,
    ChangeSettings,
    Claim,
    Closed,
    DropGeneration,
    Expire,
    Holders,
    Horizon,
    Item,
    Lead,
    Level,
    MessageItem,
    ReadRegistration,
    Release,
    Resign,
    Tick,
    Unassign,
    WillDue,
)
from holdfast.records.cluster.record import MAX_VERSION, ClusterRecord, SessionEntry
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone

CLUSTER = bytes(range(16))

u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=8)
blobs = st.binary(max_size=8)
parameters = st.dictionaries(names, i64 | names | st.lists(i64, max_size=3).map(tuple), max_size=2)

messages = st.builds(
    Message,
    st.binary(min_size=1, max_size=8),
    blobs,
    st.integers(0, 2),
    names.map(ClientId),
    st.integers(0, 2**50),
    retain=st.booleans(),
    properties=blobs,
)
zones = st.builds(
    VnodeZone,
    names,
    u16,
    names,
    parameters,
    st.lists(blobs, min_size=1, max_size=2).map(tuple),
    store_qos0=st.booleans(),
)
default_zones = st.builds(VnodeZone, names, u16, names, parameters, st.just(()), store_qos0=st.booleans())
vnode_settings = st.builds(
    lambda default, others, mounts: VnodeSettings((default, *others), mounts),
    default_zones,
    st.lists(zones, max_size=2),
    st.lists(blobs, max_size=2).map(tuple),
)


@st.composite
def step_items(draw: st.DrawFn, sessions: int) -> StepItem:
    """A step with the fields that it has, and no others."""
    step = draw(st.sampled_from(list(steps.STEPS)))
    shaped = {
        "packet_id": (u16, steps.KEEP_INFLIGHT <= step <= steps.DROP_INCOMING),
        "shard": (u16, step == steps.DROP_INFLIGHT),
        "position_us": (i64, step == steps.DROP_INFLIGHT),
        "name": (blobs, steps.KEEP_SUBSCRIPTION <= step <= steps.DROP_MEMBER and step != steps.KEEP_GROUP),
        "value": (
            blobs,
            step
            in (
                steps.KEEP_SESSION,
                steps.KEEP_PROGRESS,
                steps.KEEP_SUBSCRIPTION,
                steps.KEEP_REPLAY,
                steps.KEEP_RETAINED,
                steps.KEEP_GROUP,
                steps.KEEP_INFLIGHT,
                steps.KEEP_ASSIGNMENTS,
            ),
        ),
    }
    fields = {name: draw(strategy) for name, (strategy, has) in shaped.items() if has}
    return StepItem(draw(st.integers(0, sessions - 1)), step, **fields)  # type: ignore[arg-type]


def message_items(sessions: int) -> st.SearchStrategy[Item]:
    return st.builds(
        MessageItem,
        st.integers(0, sessions - 1),
        messages,
        packet_id=u16,
        number=st.integers(-1, 2**63 - 1),
        user=st.none() | names,
    )


unowned_items: st.SearchStrategy[Item] = st.one_of(
    st.builds(Claim, names, u64, st.none() | st.tuples(u64, u32, u64), st.none() | u64),
    st.builds(Release, names, u64, st.booleans()),
    st.builds(ReadRegistration, names),
    st.builds(WillDue, names, u64),
    st.builds(Expire, names, i64),
    st.builds(Closed, u32, u64),
    st.sampled_from([Lead(), Resign(), Tick()]),
    st.builds(Assign, names, u16, i64, names, u64),
    st.builds(Unassign, names, u16, i64),
    st.builds(Border, names, u32, names, parameters, blobs, i64),
    st.builds(DropGeneration, names, u32),
    st.builds(Horizon, blobs, i64),
    st.builds(ChangeSettings, u64, vnode_settings),
    st.builds(Level, u16),
    st.builds(Holders, u64, st.lists(u32, max_size=3).map(tuple)),
)


@st.composite
def cluster_records(draw: st.DrawFn) -> ClusterRecord:
    sessions = draw(st.lists(st.builds(SessionEntry, names, u64), max_size=3))
    items = unowned_items
    if sessions:
        items = items | step_items(len(sessions)) | message_items(len(sessions))
    return ClusterRecord(
        CLUSTER,
        draw(u32),
        draw(u64),
        draw(u64),
        draw(i64),
        draw(st.integers(0, MAX_VERSION - 1)),
        sessions,
        draw(st.lists(items, max_size=5)),
    )
