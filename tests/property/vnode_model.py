"""The rules of a vnode said in another way: plain dictionaries, closings carried out at once, times worked out forward.

It shares nothing with `durable/state_machine` but the records. Where that keeps rows and looks things up late, this
keeps objects and changes them when it happens; where that has formulas over stored records, this has due times.
"""

from dataclasses import dataclass, field

from holdfast.model.message import Message
from holdfast.model.will import StoredWill
from holdfast.records.cluster import items as it
from holdfast.records.cluster.record import ClusterRecord
from holdfast.records.cluster.session_steps import DROP_SESSION, KEEP_INCOMING, KEEP_PROGRESS, KEEP_SESSION, StepItem
from holdfast.records.session.progress import decode_progress
from holdfast.records.session.session_record import decode_session

S = 1_000_000
FOREVER = 0xFFFFFFFF
GROUP = "\0group\0"


@dataclass
class Registered:
    node: int
    epoch: int
    link: int
    revision: int
    version: tuple[int, int, int]
    left_us: int | None = None


@dataclass
class Session:
    expiry_s: int
    will: StoredWill | None
    #: None while it is connected; of an offline one when its will and its end come.
    offline_us: int | None = None
    will_us: int | None = None
    end_us: int | None = None
    incoming: set[int] = field(default_factory=set)

    def leave(self, now_us: int, *, at_least_s: int = 0) -> None:
        self.offline_us = now_us
        if self.will is not None:
            wait_s = max(min(self.will.delay_s, self.expiry_s), at_least_s)
            if at_least_s:
                self.expiry_s = max(self.expiry_s, wait_s)
            self.will_us = now_us + wait_s * S
        self.end_us = None if self.expiry_s == FOREVER else now_us + self.expiry_s * S


@dataclass
class Shard:
    number: int
    positions: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    kept: set[int] = field(default_factory=lambda: {1})


class VnodeModel:
    def __init__(self) -> None:
        self.last: dict[int, tuple[int, int]] = {}
        self.closed: dict[int, int] = {}
        self.claims: list[tuple[int, int, int]] = []
        self.now_us = 0
        self.doubted_us = 0
        self.leaps: list[tuple[int, int]] = []
        self.registered: dict[str, Registered] = {}
        self.sessions: dict[str, Session] = {}
        self.numbers: dict[str, int] = {}
        self.leader: tuple[int, int, int, int] | None = None
        self.shard: Shard | None = None
        self.retained: dict[bytes, tuple[int, bytes]] = {}
        self.version = 0
        self.assigned: set[tuple[str, int, int]] = set()
        self.progress: dict[str, dict[int, int]] = {}
        self.settings = self.level = 0
        self.holders: tuple[int, frozenset[int]] | None = None

    # ---- records

    def apply(self, sequence: int, stamp_us: int, record: ClusterRecord | None) -> str:
        self.accepted: list[bool] = []
        self.published: list[tuple[int, bytes, int, int, int, bool]] = []
        self.revisions: dict[int, int] = {}
        self.reads: dict[int, int] = {}
        self.fenced: list[int] = []
        self.ended: list[str] = []
        if record is None:
            return "foreign"
        epoch, number = self.last.get(record.node, (0, 0))
        barred = self.holders is not None and record.node not in self.holders[1] and record.epoch < self.holders[0]
        if barred or record.epoch < max(epoch, self.closed.get(record.node, 0)):
            return "closed epoch"
        expected = number + 1 if record.epoch == epoch else 1
        if record.number != expected:
            return "repeated" if record.number < expected else "gap"
        self._tell_time(record, stamp_us)
        self.record, self.sequence = record, sequence
        if record.node in self.last and record.epoch > epoch:
            self._close(record.node, record.epoch)
        self.last[record.node] = (record.epoch, record.number)
        for index, item in enumerate(record.items):
            self.index = index
            self.accepted.append(self._decide(item))
        return "applied"

    def _tell_time(self, record: ClusterRecord, stamp_us: int) -> None:
        before_us = self.now_us
        claim_us = min(stamp_us, record.time_us)
        others = [claimed for node, _stamp, claimed in self.claims if node != record.node]
        if not self.claims:
            self.now_us = max(1, claim_us)
        elif abs(claim_us - self.now_us) > 30 * S:
            passed_us = sorted([0, stamp_us - self.claims[-1][1], 30 * S])[1]
            ahead_us = stamp_us - self.now_us
            agreed_us = min(others[-1], claim_us) if others else 0
            self.now_us = max(self.now_us + (min(passed_us, ahead_us) if ahead_us > 0 else passed_us), agreed_us)
        else:
            self.now_us = max(self.now_us, claim_us)
        far = [abs(claimed - self.now_us) > 30 * S for claimed in (claim_us, *(others[-1:] or [0]))]
        if self.claims and self.now_us - before_us > 30 * S:
            self.leaps += [(self.doubted_us, self.now_us)] if self.doubted_us else []
            self.doubted_us = 0
        elif self.claims and far[0]:
            self.doubted_us = self.doubted_us or self.now_us
        elif self.claims and not far[1]:
            self.doubted_us = 0
        self.claims.append((record.node, stamp_us, claim_us))

    def _close(self, node: int, before: int) -> bool:
        if before <= self.closed.get(node, 0):
            return False
        self.closed[node] = before
        for client, found in self.registered.items():
            if found.node == node and found.epoch < before and found.left_us is None:
                found.left_us = self.now_us
                if client in self.sessions:
                    self.sessions[client].leave(self.now_us, at_least_s=30)
                    if self.sessions[client].will is None:
                        continue
        if self.leader is not None and self.leader[0] == node and self.leader[1] < before:
            self.leader = None
        return True

    def _decide(self, item: it.Item) -> bool:
        if isinstance(item, (it.MessageItem, StepItem)):
            if item.session not in self.fenced and self._held(item.session):
                return self._of_session(item)
            if item.session not in self.fenced:
                self.fenced.append(item.session)
            return False
        name = type(item).__name__
        if self.record.epoch < self.closed.get(self.record.node, 0) and name != "ReadRegistration":
            return False
        of_leader = name in ("Assign", "Unassign", "Border", "DropGeneration", "Horizon")
        if of_leader and (self.leader is None or self.leader[:2] != (self.record.node, self.record.epoch)):
            return False
        return bool(getattr(self, f"_{name}")(item))

    # ---- sessions

    def _live(self, client: str) -> Registered | None:
        found = self.registered.get(client)
        return found if found is not None and found.left_us is None else None

    def _held(self, index: int) -> bool:
        entry = self.record.sessions[index]
        writer = (self.record.node, self.record.epoch)
        if entry.session_id.startswith(GROUP):
            return self.leader is not None and self.leader[:3] == (*writer, entry.revision)
        live = self._live(entry.session_id)
        return live is not None and (live.node, live.epoch, live.revision) == (*writer, entry.revision)

    def _of_session(self, item: it.MessageItem | StepItem) -> bool:
        client = self.record.sessions[item.session].session_id
        session = self.sessions.get(client)
        if isinstance(item, it.MessageItem):
            if item.number > self.numbers.get(client, -1) or item.number == -1:
                self.numbers[client] = max(item.number, self.numbers.get(client, -1))
                self._publish(item.message)
            if item.packet_id and session is not None:
                session.incoming.add(item.packet_id)
        elif item.step == KEEP_SESSION:
            record = decode_session(item.value)
            kept = set() if session is None else session.incoming
            self.sessions[client] = Session(record.expiry_s, record.will, incoming=kept)
        elif item.step == DROP_SESSION and session is not None:
            self._end(client)
        elif item.step == KEEP_INCOMING and session is not None:
            session.incoming.add(item.packet_id)
        elif item.step == KEEP_PROGRESS and client.startswith(GROUP):
            self.progress[client] = decode_progress(item.value).sent
        return True

    def _Claim(self, claim: it.Claim) -> bool:  # noqa: N802 (named after its item)
        live, known = self._live(claim.session_id), self.registered.get(claim.session_id)
        if self.shard is None or claim.expected != (0 if live is None else live.revision):
            return False
        assert claim.version is not None
        compared = known is not None and (known.left_us is None or self.now_us - known.left_us < 60 * S)
        if known is not None and compared and claim.version <= known.version:
            return False
        revision = self.revisions[self.index] = self.sequence * 65536 + self.index
        writer = self.record.node, self.record.epoch
        self.registered[claim.session_id] = Registered(*writer, claim.connection_id, revision, claim.version)
        session = self.sessions.get(claim.session_id)
        if session is None:
            return True
        waits = session.will is not None and min(session.will.delay_s, session.expiry_s)
        due = self._has_come(session, session.will_us)
        if session.will is not None and (due or (live is not None and waits == 0)):
            self._publish_will(claim.session_id)
        if session.expiry_s == 0 or self._has_come(session, session.end_us):
            self._end(claim.session_id)
        session.offline_us = session.will_us = session.end_us = None
        return True

    def _Release(self, release: it.Release) -> bool:  # noqa: N802
        live = self._live(release.session_id)
        channel = (self.record.node, self.record.epoch, release.connection_id)
        if live is None or (live.node, live.epoch, live.link) != channel:
            return False
        live.left_us = self.now_us
        session = self.sessions.get(release.session_id)
        if session is not None:
            if release.goodbye:
                session.will = None
            session.leave(self.now_us)
            if session.will is not None and session.will_us == self.now_us:
                self._publish_will(release.session_id)
            if session.expiry_s == 0:
                self._end(release.session_id)
        return True

    def _ReadRegistration(self, read: it.ReadRegistration) -> bool:  # noqa: N802
        live = self._live(read.session_id)
        self.reads[self.index] = 0 if live is None else live.revision
        return True

    def _WillDue(self, due: it.WillDue) -> bool:  # noqa: N802
        known, session = self.registered.get(due.session_id), self.sessions.get(due.session_id)
        if known is None or known.left_us is None or known.revision != due.revision or session is None:
            return False
        if not self._has_come(session, session.will_us):
            return False
        self._publish_will(due.session_id)
        return True

    def _Expire(self, expire: it.Expire) -> bool:  # noqa: N802
        session = self.sessions.get(expire.session_id)
        if session is None or session.end_us != expire.ends_us or not self._has_come(session, session.end_us):
            return False
        self._end(expire.session_id)
        return True

    def _has_come(self, session: Session, at_us: int | None) -> bool:
        """A time of an offline session: it begins to wait again at the end of a doubt that it began in."""
        if at_us is None or session.offline_us is None:
            return False
        since_us = session.offline_us
        for from_us, to_us in self.leaps[-4:]:
            since_us = to_us if from_us <= since_us < to_us else since_us
        return at_us + since_us - session.offline_us <= self.now_us

    def _publish_will(self, client: str) -> None:
        session = self.sessions[client]
        assert session.will is not None
        self._publish(session.will)
        session.will = session.will_us = None

    def _end(self, client: str) -> None:
        if self.sessions[client].will is not None:
            self._publish_will(client)
        del self.sessions[client]
        self.ended.append(client)

    # ---- messages

    def _publish(self, message: Message | StoredWill) -> None:
        assert self.shard is not None
        position = self._next_position()
        place = (0, 0)
        if message.qos:
            self.shard.positions.append(position)
            place = (position, len(self.shard.positions))
        version = 0
        if message.retain:
            version = self.version = max(position, self.version + 1, self.record.seen_version + 1)
            self.retained[message.topic] = (version, message.payload)
        is_will = isinstance(message, StoredWill)
        self.published.append((self.index, message.topic, *place, version, is_will))

    def _next_position(self) -> int:
        assert self.shard is not None
        return max([self.now_us, self.shard.starts[-1], *[position + 1 for position in self.shard.positions[-1:]]])

    def _Border(self, border: it.Border) -> bool:  # noqa: N802
        if self.shard is None or border.number != len(self.shard.starts) + 1:
            return False
        self.shard.starts.append(max(self._next_position(), border.not_before_us))
        self.shard.kept.add(border.number)
        return True

    def _DropGeneration(self, drop: it.DropGeneration) -> bool:  # noqa: N802
        if self.shard is None or drop.number not in self.shard.kept or drop.number == len(self.shard.starts):
            return False
        self.shard.kept.remove(drop.number)
        return True

    def _Horizon(self, horizon: it.Horizon) -> bool:  # noqa: N802
        if self.retained.get(horizon.topic, (0, b""))[0] != horizon.version:
            return False
        del self.retained[horizon.topic]
        return True

    # ---- the vnode

    def _Closed(self, closed: it.Closed) -> bool:  # noqa: N802
        return self._close(closed.node, closed.before)

    def _Lead(self, _lead: it.Lead) -> bool:  # noqa: N802
        if self.leader is not None and self.now_us - self.leader[3] < 15 * S:
            return False
        revision = self.sequence * 65536 + self.index
        self.leader = (self.record.node, self.record.epoch, revision, self.now_us)
        return True

    def _Resign(self, _resign: it.Resign) -> bool:  # noqa: N802
        if self.leader is None or self.leader[:2] != (self.record.node, self.record.epoch):
            return False
        self.leader = None
        return True

    def _Tick(self, _tick: it.Tick) -> bool:  # noqa: N802
        if self.leader is None or self.leader[:2] != (self.record.node, self.record.epoch):
            return False
        self.leader = (*self.leader[:3], self.now_us)
        return True

    def _Assign(self, assign: it.Assign) -> bool:  # noqa: N802
        place = (assign.group, assign.shard, assign.position_us)
        is_new = place not in self.assigned
        self.assigned.add(place)
        return is_new

    def _Unassign(self, unassign: it.Unassign) -> bool:  # noqa: N802
        place = (unassign.group, unassign.shard, unassign.position_us)
        if place not in self.assigned or place[2] > self.progress.get(place[0], {}).get(place[1], -1):
            return False
        self.assigned.remove(place)
        return True

    def _ChangeSettings(self, change: it.ChangeSettings) -> bool:  # noqa: N802
        if change.control <= self.settings:
            return False
        self.settings = change.control
        self.shard = self.shard or Shard(change.settings.zones[0].shard)
        return True

    def _Level(self, level: it.Level) -> bool:  # noqa: N802
        grows = level.level > max(1, self.level)
        self.level = max(self.level, level.level)
        return grows

    def _Holders(self, holders: it.Holders) -> bool:  # noqa: N802
        if self.holders is not None and holders.control <= self.holders[0]:
            return False
        named = frozenset(holders.nodes)
        again = frozenset() if self.holders is None else named - self.holders[1]
        for node in sorted((frozenset(self.last) - named) | again):
            self._close(node, holders.control)
        self.holders = (holders.control, named)
        return True
