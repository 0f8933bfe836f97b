"""The messages of a vnode: each record's go into the column families of their shards, in the batch of the record.

    rows of the record          before its batch        in its batch          behind its batch
    ──────────────────────────  ──────────────────────  ────────────────────  ────────────────────────────────
    a generation that is new    its family is made      its messages          it is read
    a generation that changed                                                 it is read as far as it goes now
    a generation that is gone                           messages, if any      its family is dropped
    the head of a shard                                                       readers see what is up to it

What a vnode has is known from its rows alone, when it is opened and from batch to batch. So a node that was killed
knows what it would know otherwise. A batch is lost as a whole; families are made and dropped apart from batches:
`repair_families` puts right at open what a crash has left between the two.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import META
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.message import Message
from holdfast.records.generations import Generation, decode_generation, family_parts
from holdfast.records.meta_keys import GENERATION, HEAD, generation_key, shard_of_key
from holdfast.records.positions import ShardHead, decode_head
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.engine.scan import check_end, open_cursor
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.storage.rocks.vnodes.shard_part import ShardPart
from holdfast.storage.rocks.vnodes.vnode_log import VnodeLog

_log = structlog.get_logger()

_GENERATION: Final = bytes((GENERATION,))
_HEAD: Final = bytes((HEAD,))
#: Above every key of a family of messages. It outlives all cursors, see `open_cursor`.
_END: Final = b"\xff"


class _Batch:
    """What a batch that is not written yet will change here."""

    def __init__(self) -> None:
        #: Generations that it begins; and all whose rows it writes, in their order.
        self.begun: Final[list[tuple[ShardPart, LiveGeneration]]] = []
        self.kept: Final[list[tuple[ShardPart, LiveGeneration]]] = []
        self.dropped: Final[list[Generation]] = []
        self.heads: Final[dict[int, ShardHead]] = {}
        #: Messages by shard; the positions of each list follow each other.
        self.commits: Final[dict[int, list[list[Message]]]] = {}

    def begun_in(self, part: ShardPart) -> list[LiveGeneration]:
        return [live for of, live in self.begun if of is part]


class VnodeMessages:
    """A `MessageWriter` by shape: the parts of one vnode in the log of its node."""

    def __init__(self, families: ColumnFamilies, vnode: int, log: VnodeLog, segments: SegmentFamilies) -> None:
        self._families: Final = families
        self._vnode: Final = vnode
        self._log: Final = log
        self._segments: Final = segments
        self._parts: Final[dict[int, ShardPart]] = {}
        self._batch = _Batch()
        #: Families that could not be dropped yet.
        self._strays: list[str] = []

    def load(self, generations: Iterable[Generation], heads: dict[int, ShardHead]) -> None:
        """Know what the rows of the vnode say. PermanentError if another vnode has a shard of it, or if a generation
        has a layout that is not stored here.

        Requires: families are repaired.
        """
        for record in generations:
            part = self._part_of(record)
            part.put(part.readable(record))
        for part in self._parts.values():
            head = heads.get(part.id)
            if head is not None:
                part.start_at(head)
            part.note_gaps(self._families)
            for piece in part.live[-1].by_shard.values():
                piece.layout.load(self._families.family(piece.family))

    def _part_of(self, record: Generation) -> ShardPart:
        shard = record.shards[0]
        part = self._parts.get(shard)
        if part is None:
            part = ShardPart(self._vnode, record.zone, shard, self._segments)
            self._log.add(part)
            self._parts[shard] = part
        return part

    # ---- a batch is built

    def add(self, published: Sequence[PublishedMessage], rows: Changes, changes: Changes) -> None:
        self._batch = batch = _Batch()
        for key, value in rows.into(META).operations:
            if key.startswith(_GENERATION):
                if isinstance(value, bytes):
                    self._put_generation(decode_generation(key, value), batch)
                else:
                    batch.dropped.append(self._generation(key, batch))
            elif key.startswith(_HEAD) and isinstance(value, bytes):
                batch.heads[shard_of_key(key)] = decode_head(value)
        by_shard: dict[int, list[PublishedMessage]] = {}
        for message in published:
            by_shard.setdefault(message.message.shard, []).append(message)
        for shard, messages in by_shard.items():
            self._put_messages(self._parts[shard], messages, batch, changes)

    def _put_generation(self, record: Generation, batch: _Batch) -> None:
        part = self._part_of(record)
        generation = part.readable(record)
        if all(live.record.number != record.number for live in [*part.live, *batch.begun_in(part)]):
            batch.begun.append((part, generation))
        batch.kept.append((part, generation))

    def _generation(self, key: bytes, batch: _Batch) -> Generation:
        """The generation whose row goes, as it is then: the same batch may have begun or sealed it."""
        changed = [live.record for _part, live in reversed(batch.kept)]
        for record in [*changed, *[live.record for part in self._parts.values() for live in part.live]]:
            if generation_key(record.zone, record.number) == key:
                return record
        raise PermanentError(f"vnode {self._vnode} has no generation with the key {key.hex()} to drop")

    def _put_messages(
        self, part: ShardPart, published: list[PublishedMessage], batch: _Batch, changes: Changes
    ) -> None:
        # Messages of a record are in the generation that was open before it, or in those that it begins.
        generations = [*part.live[-1:], *batch.begun_in(part)]
        commits = batch.commits[part.id] = []
        serial, messages = 0, list[Message]()
        for found in published:
            begins = len(generations) > 1 and generations[1].record.start_us <= found.message.position_us
            if begins:
                self._put_commit(part, generations[0], messages, serial, changes)
            while len(generations) > 1 and generations[1].record.start_us <= found.message.position_us:
                del generations[0]
            if begins or not messages:
                serial, messages = found.serial, []
                commits.append(messages)
            messages.append(found.message)
        self._put_commit(part, generations[0], messages, serial, changes)

    def _put_commit(
        self, part: ShardPart, generation: LiveGeneration, messages: list[Message], serial: int, changes: Changes
    ) -> None:
        if messages:
            piece = generation.by_shard[part.id]
            piece.layout.sink.put_commit(messages, serial, changes.into(piece.family))

    # ---- a batch is written

    def make_ready(self) -> None:
        for _part, generation in self._batch.begun:
            make_families(self._families, generation.record)

    def refused(self) -> None:
        self._log.revoke()

    def written(self) -> None:
        batch, self._batch = self._batch, _Batch()
        for part, generation in batch.kept:
            part.put(generation)
        for shard, head in batch.heads.items():
            part = self._parts[shard]
            part.head_us, part.head_serial = head.position_us, head.serial
            for messages in batch.commits.get(shard, []):
                part.ring.append(messages)
        for record in batch.dropped:
            _log.info("generation dropped", zone=record.zone, shard=record.shards[0], number=record.number)
            self._parts[record.shards[0]].remove(record)
            self._strays.extend(record.families())
        if batch.dropped:
            self._log.revoke()
            for shard in {record.shards[0] for record in batch.dropped}:
                self._parts[shard].note_gaps(self._families)
        if self._strays:
            self._drop_strays()

    def _drop_strays(self) -> None:
        there = self._families.families()
        left: list[str] = []
        for name in self._strays:
            if name in there:
                try:
                    self._families.drop_family(name)
                except TransientError as error:
                    _log.warning("a dropped generation stays on disk for now", family=name, why=str(error))
                    left.append(name)
        self._strays = left


def make_families(families: ColumnFamilies, record: Generation) -> list[str]:
    """Make what is missing of a generation's families, except that of its segments; the names of what was."""
    there = families.families()
    missing = [name for name in [record.family(shard) for shard in record.shards] if name not in there]
    for name in missing:
        families.create_family(name)
    return missing


def repair_families(families: ColumnFamilies, generations: list[Generation]) -> None:
    """Bring the families of messages in line with the rows of all vnodes, after a crash between the two.

    An empty family of a generation that comes next was made for a record whose batch is lost. It stays, because that
    record is read again: a family that is dropped and made again under its name ends every process that reads beside
    the node (`records/generations.py`).
    """
    last: dict[int, int] = {}
    known: set[str] = set()
    for record in generations:
        for name in make_families(families, record):
            _log.warning("a generation had no column family", family=name, zone=record.zone)
        known.update(record.families())
        for shard in record.shards:
            last[shard] = max(last.get(shard, 0), record.number)
    for name in families.families():
        parts = family_parts(name)
        if parts is None or name in known:
            continue
        shard, number = parts
        if number <= last.get(shard, 0) or not _is_empty(families, name):
            _log.info("a column family without a generation is dropped", family=name)
            families.drop_family(name)


def _is_empty(families: ColumnFamilies, name: str) -> bool:
    cursor = open_cursor(families.family(name), _END)
    cursor.seek_to_first()
    if cursor.valid():
        return False
    check_end(cursor)
    return True
