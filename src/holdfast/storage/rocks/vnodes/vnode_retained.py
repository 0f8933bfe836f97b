"""Retained messages of a node in a cluster: each vnode has its own table, and a read merges them.

    topic    vnode 0            vnode 1               what is read
    ───────  ─────────────────  ────────────────────  ────────────────────────────────────────────
    a        version 5          version 9             that of vnode 1
    b        version 5          version 9, removed    nothing
    c        version 9, expired version 5             nothing: an entry that expired, or was erased, is a removal
    d        version 5          version 9, too new    nothing: its reader gets it as a live message

1. The greatest (version, shard) of a topic wins, whatever became of it. A lower one is never shown in its place.
2. A scan is as of a version for each vnode: the last one that was applied there when it began. Versions of one vnode
   never go back; between vnodes they do not follow the order of applying, so one number for all vnodes is not exact.
3. Nothing is written here: the appliers have written what is kept. The node's own topics are about this run alone, and
   are in memory.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.durable.erasures import no_erasures
from holdfast.durable.retained.memory_retained import MemoryRetained
from holdfast.durable.retained.retained_store import RetainedScan, ScanBudget
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.records.cluster.rows import CLOCK_KEY, decode_clock
from holdfast.records.retained import RetainedRecord, decode_retained, retained_key, retained_topic
from holdfast.storage.rocks.retained.retained_scan import TopicWalk
from holdfast.storage.rocks.retained.unreadable_records import UnreadableRecords
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from holdfast.topics.filters import TopicFilter

_OWN: Final = b"$SYS/"


class VnodeRetained:
    """The retained messages of all vnodes that a node has; a `RetainedStore` and a `VersionedRetained` by shape.

    Deliveries take the versions of all vnodes (`match_as_of`, `rest_as_of`). `rest` has one number for all of them: it
    may show a message that was applied in a slow vnode after the scan began, and that its reader got as a live message.
    """

    def __init__(self, vnodes: Mapping[int, RocksVnode], clock: Clock) -> None:
        self._vnodes: Final = vnodes
        self._clock: Final = clock
        self._own: Final = MemoryRetained()
        #: What is shown to no reader any more.
        self.erasures = no_erasures()
        self._unreadable: Final = UnreadableRecords()

    def keep(self, message: Message) -> None:
        """What a client retains is there already."""
        if message.topic.startswith(_OWN):
            self._own.keep(message)

    # ---- one topic

    def get(self, topic: bytes, now_us: int) -> Message | None:
        if topic.startswith(_OWN):
            return self._own.get(topic, now_us)
        return self.find(retained_key(topic), now_us, self.versions())

    def at(self, topic: bytes, newest: int) -> Message | None:
        """The message of a topic, if it is the one that the change `newest`, or one before it, has left there."""
        return self.find(retained_key(topic), self._clock.wall_us(), dict.fromkeys(self._vnodes, newest))

    def find(self, key: bytes, now_us: int, versions: Mapping[int, int]) -> Message | None:
        """The message under the key of a topic, as of a version for each vnode, if it was not replaced since."""
        found: list[tuple[int, bytes]] = []
        for number, vnode in self._vnodes.items():
            value = vnode.retained().get(key)
            if value is not None:
                found.append((number, value))
        return self.newest_of(key, found, now_us, versions)

    # ---- scans

    def match(self, topic_filter: TopicFilter, now_us: int) -> RetainedScan:
        return self.match_as_of(topic_filter, now_us, self.versions())

    def match_as_of(self, topic_filter: TopicFilter, now_us: int, versions: Mapping[int, int]) -> RetainedScan:
        """The node's own topics are found as of now."""
        if topic_filter.levels[0] == b"$SYS":
            return self._own.match(topic_filter, now_us)
        return self.rest_as_of(topic_filter, now_us, b"", versions)

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> RetainedScan:
        """The node's own topics are owed to no client, and not found here."""
        return self.rest_as_of(topic_filter, now_us, after, dict.fromkeys(self._vnodes, newest))

    def rest_as_of(
        self, topic_filter: TopicFilter, now_us: int, after: bytes, versions: Mapping[int, int]
    ) -> "VnodeRetainedScan":
        """As `rest`, as of a version for each vnode. What a vnode has that is not named came later."""
        walks = {
            number: TopicWalk(vnode.retained().family, topic_filter, after, vnode.retained().prefix)
            for number, vnode in self._vnodes.items()
        }
        return VnodeRetainedScan(self, walks, now_us, after, versions)

    def changes(self) -> int:
        """How often tables of retained messages were changed since the start."""
        return sum([vnode.retained_changes for vnode in self._vnodes.values()])

    # ---- versions

    def versions(self) -> dict[int, int]:
        """The last version that was applied in each vnode; 0 if there is none."""
        found: dict[int, int] = {}
        for number, vnode in self._vnodes.items():
            value = vnode.get(CLUSTER, CLOCK_KEY)
            found[number] = 0 if value is None else decode_clock(value).version
        return found

    def newest(self) -> int:
        return max(self.versions().values(), default=0)

    def written(self) -> int:
        return self.newest()

    def count(self) -> int:
        """An upper bound: a topic in several vnodes counts in each, and one that expired until it is taken out."""
        return sum([vnode.retained_count for vnode in self._vnodes.values()]) + self._own.count()

    # ---- records

    def newest_of(
        self, key: bytes, entries: list[tuple[int, bytes]], now_us: int, versions: Mapping[int, int]
    ) -> Message | None:
        """Of the records of one topic, each with its vnode, the message that is seen; None if there is none."""
        best: tuple[int, int] = (-1, -1)
        seen: Message | None = None
        for vnode, value in entries:
            record = self._decode(vnode, key, value)
            if record is not None and (record.stored_us, record.shard) > best:
                best = (record.stored_us, record.shard)
                message = record.stored.message
                hidden = record.removed() or record.stored_us > versions.get(vnode, -1) or message.expired(now_us)
                seen = None if hidden or self._is_erased(record) else message
        return seen

    @property
    def unreadable(self) -> int:
        """Records that could not be decoded since the start, and were skipped."""
        return self._unreadable.count()

    def _is_erased(self, record: RetainedRecord) -> bool:
        if not self.erasures.all:
            return False
        message = record.stored.message
        place = (record.shard, message.position_us, record.stored_us)
        return self.erasures.hides_retained(*place, message.topic, message.publisher)

    def _decode(self, vnode: int, key: bytes, value: bytes) -> RetainedRecord | None:
        try:
            return decode_retained(value)
        except PermanentError as error:
            self._unreadable.note(vnode, key, str(error))
            return None


class VnodeRetainedScan:
    """A `RetainedScan` that merges the walks of all vnodes in the order of levels.

    1. Of the topics up to `at` every message was returned: a topic is only taken when each walk has found its next
       match, or is at its end.
    2. A page of matches is held for each vnode, and no cursor between two slices.
    3. Walks are at different topics. So a topic is looked up again, in all vnodes, if anything was changed since the
       scan began: what one walk has found may be replaced in a vnode whose walk is behind that topic already.
    4. A slice visits at most the budget, and one key more for each vnode.
    """

    def __init__(
        self,
        store: VnodeRetained,
        walks: dict[int, TopicWalk],
        now_us: int,
        after: bytes,
        versions: Mapping[int, int],
    ) -> None:
        self._store: Final = store
        self._walks: Final = walks
        self._now_us: Final = now_us
        self._versions: Final = dict(versions)
        self._changes: Final = store.changes()
        #: The key of the topic that was taken last.
        self._taken = retained_key(after) if after else b""

    def at(self) -> bytes:
        """The last topic that every walk has passed."""
        passed = [walk.visited for walk in self._walks.values() if not walk.found and not walk.at_end()]
        heads = [walk.found[0][0] for walk in self._walks.values() if walk.found]
        if not passed and not heads:
            passed = [max([walk.visited for walk in self._walks.values()], default=b"")]
        key = min(passed, default=b"")
        if key <= self._taken or (heads and key >= min(heads)):
            key = self._taken
        return retained_topic(key) if key else b""

    def over(self) -> bool:
        return all(not walk.found and walk.at_end() for walk in self._walks.values())

    def next(self, budget: ScanBudget) -> Message | None:
        walks = self._walks
        while True:
            for walk in walks.values():
                if not walk.found and not walk.at_end():
                    if budget.left <= 0:
                        return None
                    walk.read(budget)
            if any(not walk.found and not walk.at_end() for walk in walks.values()):
                continue
            heads = [walk.found[0][0] for walk in walks.values() if walk.found]
            is_stale = self._store.changes() != self._changes
            if not heads or (is_stale and budget.left <= 0):
                return None
            self._taken = min(heads)
            entries = [
                (number, walk.found.popleft()[1])
                for number, walk in walks.items()
                if walk.found and walk.found[0][0] == self._taken
            ]
            if is_stale:
                for _vnode in walks:
                    budget.visit(len(self._taken))
                message = self._store.find(self._taken, self._now_us, self._versions)
            else:
                message = self._store.newest_of(self._taken, entries, self._now_us, self._versions)
            if message is not None:
                return message
