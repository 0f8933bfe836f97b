"""What the dispatcher of a vnode needs of its node."""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.cluster.groups.led_group import MemberName
from holdfast.cluster.vnodes.writer import Settled
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.state_machine.tables import StateTables
from holdfast.records.cluster.group_packs import GroupPack
from holdfast.records.cluster.items import Item
from holdfast.records.cluster.record import SessionEntry
from holdfast.records.session.groups import GroupRecord
from holdfast.topics.filters import TopicFilter
from holdfast.topics.subscription import SubscriptionRecord


class StoredMember(NamedTuple):
    """What this node's tables have of a member, as of the last records that were applied."""

    #: Whether its session is there; whether it is stored, or lasts as long as its connection; and whether it has the
    #: subscription. What only its node knows, it has.
    has_session: bool
    is_stored: bool
    is_member: bool
    #: Assignments of the group's vnode up to this revision are done.
    settled: int


class DispatchServices(NamedTuple):
    """What a dispatcher needs of its node."""

    tables: StateTables
    #: Who is listed in a group that stands; none if it does not.
    listed: Callable[[str], set[MemberName]]
    group_of: Callable[[str], GroupRecord | None]
    new_queue: Callable[[str, dict[bytes, SubscriptionRecord]], LogQueue]
    new_replay: Callable[[str, SubscriptionRecord, int], LogQueue] | None
    #: Writes an item into the vnode's log.
    propose: Callable[[Item, Settled | None, SessionEntry | None], None]
    #: Calls back when everything is applied here that was in a session's log by now.
    after_all_of: Callable[[str, Callable[[], None]], None]
    #: A member, by its group.
    stored_member: Callable[[str, MemberName], StoredMember]
    send: Callable[[int, GroupPack], None]
    soon: Callable[[Callable[[], None]], None]
    now_us: Callable[[], int]
    #: Told of messages that were a member's alone, and that it never got.
    discarded: Callable[[str, int], None]
    #: Told which filters this node wants QoS 0 messages of, for groups that it dispatches, and which no longer.
    wants: Callable[[TopicFilter], None]
    wants_no_more: Callable[[TopicFilter], None]
    strategy: str
    upgrade_qos: bool
