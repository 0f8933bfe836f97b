"""A group as the leader of its vnode has it: what waits for a member, what members have, how far all of it is.

    log above the progress ──▶ waiting ──▶ picked for a member ──▶ open (QoS 0, 1) ──▶ done
                                  ▲                                  └──▶ back ──▶ waiting
                                  │            └──▶ assigning (QoS 2) ──▶ assigned: it is this member's for good
       no member has room: it stays in the log

1. The progress passes neither what waits, nor what is open, nor what is being assigned.
2. A place below the start of the group, or assigned by an earlier leader, is not given out.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.durable.queues.log_queue import LogQueue
from holdfast.exchange.delivery.group_delivery import HASH, LEAST_INFLIGHT, STICKY, stable_hash
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.session.inflight import stop_before
from holdfast.topics.filters import SHARE_PREFIX, TopicFilter, levels_match
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.subscription import SubscriptionRecord

#: Messages that are read from the log at once, and that wait in memory at most before they are left there.
_READ: Final = 100
MAX_WAITING: Final = 1000

#: Shard and position of a message.
Place = tuple[int, int]
#: Session id, and the revision of the claim that began the session.
MemberName = tuple[str, int]


def group_id_of(record: SubscriptionRecord) -> str:
    """The session id that the group of a shared subscription is stored under."""
    return f"{GROUP_PREFIX}$share/{record.filter.group}/{record.filter.inner().decode()}"


def group_record(group_id: str, since: dict[int, int] | None, since_us: int = 0) -> SubscriptionRecord:
    """What a group subscribes to, as if it were a client: its filter, from these heads on, or from a time."""
    inner = group_id[len(GROUP_PREFIX) + len(SHARE_PREFIX) :].split("/", 1)[1].encode()
    plain = TopicFilter(inner, tuple(inner.split(SEPARATOR)), "", "")
    return SubscriptionRecord(plain, 2, False, False, 0, 0, since_us, since_heads=since)


class LedMember:
    """A member that is connected: at which node, and how much more it takes."""

    def __init__(self, name: MemberName, link: int, qos: int) -> None:
        self.name: Final = name
        #: The number of the link to its node.
        self.link: Final = link
        self.qos = qos
        #: What its node has said, and what it was given that its node did not know by then.
        self.free = 0
        self.in_flight = 0
        self.unseen = 0
        #: Revisions of assignments to it that its node may not have applied, and how many are being decided.
        self.assigned: list[int] = []
        self.assigning = 0
        #: Assignments up to this revision are done, by its node.
        self.settled = 0

    def room(self) -> int:
        return self.free - self._under_way()

    def load(self) -> int:
        """How many messages it has in flight, or is about to have."""
        return self.in_flight + self._under_way()

    def _under_way(self) -> int:
        return self.unseen + len(self.assigned) + self.assigning


class OpenWork:
    """A message that a member has."""

    def __init__(self, message: Message, member: MemberName, link: int, given_us: int) -> None:
        self.message: Final = message
        self.member: Final = member
        self.link: Final = link
        self.given_us: Final = given_us


class LedGroup:
    """One group. It decides nothing that has to survive its leader."""

    def __init__(
        self,
        group_id: str,
        strategy: str,
        start: dict[int, int],
        assigned: Iterable[Place],
        new_queue: Callable[[str, dict[bytes, SubscriptionRecord]], LogQueue],
        history: LogQueue | None = None,
        since_us: int = 0,
    ) -> None:
        """`history` is what it reads first, if it began in the past and has not reached the present."""
        self.id: Final = group_id
        self._strategy: Final = strategy
        self._start: Final = start
        self.since_us: Final = since_us
        self.record: Final = group_record(group_id, start)
        self._live: Final = new_queue(group_id, {self.record.filter.raw: self.record})
        self._queue = self._live if history is None else history
        self._queue.continue_from(start, set(assigned), {})
        #: Whether it is stored as reading history.
        self.was_replaying = history is not None
        #: The next one first.
        self._waiting: Final[deque[Message]] = deque()
        self.open: Final[dict[Place, OpenWork]] = {}
        self.assigning: Final[dict[Place, Message]] = {}
        #: What members of an earlier leader have done, and this one has not given out.
        self._finished: Final[set[Place]] = set()
        #: Members that are connected, in the order in which they came; and all that are listed in the group's vnode.
        self.members: Final[dict[MemberName, LedMember]] = {}
        self.listed: Final[set[MemberName]] = set()
        self.steal_after_us = 0
        #: The progress as it was stored last.
        self.stored: dict[int, int] = dict(start)
        self._turn = 0
        self._favourite: MemberName | None = None

    # ---- messages

    def matches(self, message: Message) -> bool:
        return levels_match(self.record.filter.levels, message.topic.split(SEPARATOR), dollar=is_dollar(message.topic))

    def is_replaying(self) -> bool:
        """Whether it reads history, QoS 0 included, and has not reached the present."""
        return self._queue is not self._live

    def offer(self, message: Message) -> None:
        """A message of the log is about to count as delivered. Requires: it has a place, and matches."""
        if not self._queue.at_end() or not self.record.begins_before(message.shard, message.position_us):
            return  # it is read from the log, or was there before the group
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(message)
        else:
            self._queue.append([Owed(message, message.qos)])

    def next(self) -> Message | None:
        """The next message that is to be given out; None if there is none now."""
        while True:
            if not self._waiting and not self._queue.at_end():
                self._waiting.extend([owed.message for owed in self._queue.read(0, _READ)])
                if self._queue.at_end():
                    self._queue = self._live  # it was sent everything that is delivered
            if not self._waiting:
                return None
            message = self._waiting.popleft()
            place = (message.shard, message.position_us)
            if place not in self._finished:
                return message
            self._finished.discard(place)

    def wait(self, message: Message) -> None:
        """No member takes it now: it is the next one again."""
        self._waiting.appendleft(message)

    def reads_on(self) -> bool:
        """Whether a long stretch of the log had nothing for it, and more follows."""
        return not self._waiting and not self._queue.at_end()

    def finish(self, place: Place) -> None:
        if self.open.pop(place, None) is None:
            self._finished.add(place)

    def give_back(self, places: Iterable[Place]) -> None:
        """Members do not have these any more: they come before what waits, in their order."""
        latest_first = sorted(self.open.keys() & set(places), key=lambda place: place[1], reverse=True)
        self._waiting.extendleft([self.open.pop(place).message for place in latest_first])

    def progress(self) -> dict[int, int]:
        """How far everything is done, or is a member's for good."""
        sent = self._queue.sent()
        for message in self._waiting:
            stop_before(message, sent)
        for work in self.open.values():
            stop_before(work.message, sent)
        for message in self.assigning.values():
            stop_before(message, sent)
        for shard, position_us in self._start.items():
            sent[shard] = max(sent.get(shard, 0), position_us)
        self._finished.difference_update([one for one in self._finished if one[1] <= sent.get(one[0], 0)])
        return sent

    # ---- members

    def pick(self, message: Message, besides: MemberName | None = None, *, needs_room: bool = True) -> LedMember | None:
        """The member that gets a message now; None if none has room."""
        ready = [one for one in self.members.values() if one.name != besides and (one.room() > 0 or not needs_room)]
        if not ready:
            return None
        if self._strategy == HASH:
            return ready[stable_hash(message.publisher) % len(ready)]
        if self._strategy == STICKY:
            found = next((one for one in ready if one.name == self._favourite), ready[0])
            self._favourite = found.name
            return found
        self._turn += 1
        ready = ready[self._turn % len(ready) :] + ready[: self._turn % len(ready)]
        return min(ready, key=LedMember.load) if self._strategy == LEAST_INFLIGHT else ready[0]

    def check_invariants(self) -> None:
        sent = self.progress()
        for shard, position_us in [*self.open, *self.assigning]:
            assert sent.get(shard, 0) < position_us
        assert not self.open.keys() & self.assigning.keys()
