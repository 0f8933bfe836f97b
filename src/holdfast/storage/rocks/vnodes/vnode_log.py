"""The log of a node in a cluster as its readers see it (`durable/log.py`): all parts of all its vnodes.

    zone default    vnode 0: shard 0    vnode 1: shard 2    …       each with generations, positions and serials
    zone audit      vnode 0: shard 1    vnode 1: shard 3    …       of its own

A filter concerns every shard. The settings of a vnode say which zone takes a topic now; what its zones took before they
were changed is not known, and has to be found.
"""

from collections.abc import Iterator
from typing import Final
from weakref import WeakSet

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.durable.log import NO_END
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.log.page_cache import PageCache
from holdfast.storage.rocks.log.shard_scan import RocksShardScan
from holdfast.storage.rocks.log.zone_generations import ZoneGenerations
from holdfast.storage.rocks.vnodes.shard_part import ShardPart


class VnodeLog:
    """A `MessageLog` by shape.

    1. What was applied can be read: heads are those of the last batch that was written.
    2. A shard is in one vnode.
    """

    def __init__(self, families: ColumnFamilies) -> None:
        self._families: Final = families
        self._parts: Final[dict[int, ShardPart]] = {}
        self._scans: Final[WeakSet[RocksShardScan]] = WeakSet()
        self.pages = PageCache()
        #: What no reader is shown any more.
        self.erasures = no_erasures()

    # ---- parts

    def add(self, part: ShardPart) -> None:
        """A shard that came. PermanentError if another vnode has it: positions would be given out twice."""
        known = self._parts.get(part.id)
        if known is not None:
            raise PermanentError(
                f"shard {part.id} is in vnode {known.vnode} (zone {known.zone!r}) and in vnode {part.vnode} "
                f"(zone {part.zone!r}); every zone of every vnode needs a different number in the cluster's settings"
            )
        self._parts[part.id] = part

    def parts(self) -> list[ShardPart]:
        return list(self._parts.values())

    def revoke(self) -> None:
        """A generation goes, or the database is opened again: no reader may hold on to it."""
        self.pages.clear()
        for scan in self._scans:
            scan.let_go()

    def hide(self, erasures: Erasures) -> None:
        """From now on no reader is shown what was erased: what was read ahead is forgotten."""
        self.erasures = erasures
        self.revoke()

    # ---- reading

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:  # noqa: ARG002 (the contract's)
        return list(self._parts)

    def heads(self) -> dict[int, int]:
        return {part.id: part.head_us for part in self._parts.values()}

    def boundary_after(self, position_us: int) -> int:
        records = [live.record for part in self._parts.values() for live in part.live]
        bounds = [bound_us for record in records for bound_us in (record.start_us, record.end_us)]
        return min([bound_us for bound_us in bounds if bound_us > position_us], default=NO_END)

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> RocksShardScan:
        part = self._parts.get(shard)
        if part is None:
            raise MisuseError(f"there is no shard {shard}")
        scan = RocksShardScan(self, part, part, levels, from_us)
        self._scans.add(scan)
        return scan

    def at(self, shard: int, levels: tuple[bytes, ...], position_us: int) -> Message | None:
        """The message at a place, if the filter matches it and it is still there."""
        part = self._parts.get(shard)
        if part is None:
            return None
        for found in self.messages(part, shard, levels, position_us, position_us + 1):
            for message in found:
                hidden = self.erasures.hides(shard, position_us, message.topic, message.publisher)
                return None if hidden else message
        return None

    def messages(
        self, zone_log: ZoneGenerations, shard: int, levels: tuple[bytes, ...], lo_us: int, hi_us: int
    ) -> Iterator[list[Message]]:
        """Messages in order, some at a time; none now and then while nothing matches."""
        for piece, from_us, before_us in zone_log.pieces(shard, lo_us, hi_us):
            family = self._families.family(piece.family)
            yield from piece.layout.read_messages(family, levels, from_us, before_us, shard)
