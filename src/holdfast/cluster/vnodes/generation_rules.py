"""When a generation of a shard ends, and when one goes: what the leader of a vnode proposes, by age and by size.

    open generation      as old as a generation becomes, or as large ──▶ Border: the next one begins
    oldest sealed one    older than its zone is kept, or too much is kept ──▶ DropGeneration, unless a lease holds it up

All nodes carry it out at the same record. Sizes are those of the leader: other nodes may have a little more or less, as
their segments and compactions differ. One generation of a zone is proposed at a time.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.durable.zones import Zone
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.items import Border, DropGeneration, Item
from holdfast.records.generations import Generation

#: Generations that the retention of a zone is divided into, if families suffice: what goes at once is a twelfth.
_GENERATIONS: Final = 12
#: Column families of messages of one node, about: many of them make each change of one slow.
_MAX_FAMILIES: Final = 64
_MIN_GENERATION_S: Final = 60
_LONGEST_GENERATION_S: Final = 30 * 24 * 3600


class ShardState(NamedTuple):
    """A shard as the leader has it: its generations, oldest first, their sizes in bytes, and its last position."""

    zone: str
    generations: list[Generation]
    sizes: list[int]
    head_us: int


class GenerationRules:
    """The bounds of the zones, as the settings of this node have them; `vnodes` share what a zone may take."""

    def __init__(
        self,
        zones: Mapping[str, Zone],
        vnodes: int,
        is_held: Callable[[Generation, int, int], bool] = lambda _generation, _head_us, _now_us: False,
    ) -> None:
        """`is_held` tells whether a sealed generation has to stay, by the last position of its shard and the time."""
        self._is_held: Final = is_held
        self._zones: Final = zones
        self._vnodes: Final = vnodes
        parts = _MAX_FAMILIES // max(1, vnodes * len(zones)) - 2
        self._parts: Final = min(_GENERATIONS, max(1, parts))

    def due(self, shards: list[ShardState], now_us: int) -> list[Item]:
        """What is to be proposed for the shards of one vnode."""
        found: list[Item] = []
        for shard in shards:
            zone = self._zones.get(shard.zone)
            if zone is None or not shard.generations:
                continue
            border = self._border(zone, shard, now_us)
            if border is not None:
                found.append(border)
            oldest = shard.generations[0]
            goes = oldest.end_us and self._goes(zone, shard, oldest, now_us)
            if goes and not self._is_held(oldest, shard.head_us, now_us):
                found.append(DropGeneration(shard.zone, oldest.number))
        return found

    def _border(self, zone: Zone, shard: ShardState, now_us: int) -> Border | None:
        current = shard.generations[-1]
        if current.end_us or shard.head_us < current.start_us or shard.head_us == 0:
            return None  # an empty one is not sealed
        # The first generation of a shard begins at 0: it is as old as the node that made it.
        began_us = max(current.start_us, current.created_us)
        old = now_us - began_us >= self._length_s(zone) * SECOND_US
        limit_bytes = zone.generation_bytes or zone.retention_bytes // _GENERATIONS
        large = limit_bytes > 0 and shard.sizes[-1] * self._vnodes >= limit_bytes
        if not (old or large) or len(shard.generations) > 2 * _GENERATIONS:
            return None
        return Border(shard.zone, current.number + 1, current.layout, dict(current.parameters))

    def _length_s(self, zone: Zone) -> int:
        if zone.generation_s:
            return zone.generation_s
        if not zone.retention_s:
            return _LONGEST_GENERATION_S
        return max(_MIN_GENERATION_S, zone.retention_s // self._parts)

    def _goes(self, zone: Zone, shard: ShardState, oldest: Generation, now_us: int) -> bool:
        if zone.retention_s and oldest.end_us <= now_us - zone.retention_s * SECOND_US:
            return True
        return zone.retention_bytes > 0 and sum(shard.sizes) * self._vnodes > zone.retention_bytes
