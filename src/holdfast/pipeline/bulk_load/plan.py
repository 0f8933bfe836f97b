"""The plan of a load, made from the summary of its rows: lanes, layouts, serials, and the records of its generations.

This module does not know Spark: workers return a summary (`summarise_stretch`), and get plain data.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from holdfast.history.reader.view import View
from holdfast.model.errors import PermanentError
from holdfast.pipeline.bulk_load.lane_plan import DIGEST, LOAD, UNSTORED, RowPlacement, plan_lanes
from holdfast.pipeline.bulk_load.rows import NO_REACH, SLOT, WRONG, Layouts, StretchBefore
from holdfast.pipeline.shipment.pair_batches import Digest, sum_digests
from holdfast.records.positions import ShardHead
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure, Pair
from holdfast.storage.rocks.shipments.parallel_learning import LayoutChoice
from holdfast.storage.rocks.shipments.shipment import ShipmentEntry

#: Learns the structure of the topics of each slot.
LearnStructures = Callable[[Mapping[int, LayoutChoice]], dict[int, LayoutStructure]]


class RowSummary:
    """What the rows are but for their topics, all stretches together."""

    def __init__(self, summary: Sequence[Any]) -> None:
        wrong = [row for row in summary if row.kind == WRONG]
        if wrong:
            count = sum(row.messages for row in wrong)
            first = min(wrong, key=lambda row: row.stretch)
            raise PermanentError(
                f"{count:,} rows cannot be messages, so nothing was loaded; {bytes(first.text).decode()}"
            )
        found = [row for row in summary if row.kind == SLOT]
        self.unstored: Final = sum(row.messages for row in found if row.slot == UNSTORED)
        #: By slot, stretch by stretch.
        self.stretches: Final[dict[int, list[tuple[int, StretchBefore]]]] = {}
        self.first_us: Final[dict[int, int]] = {}
        for row in sorted(found, key=lambda row: (row.slot, row.stretch)):
            if row.slot != UNSTORED:
                self.stretches.setdefault(row.slot, []).append((row.stretch, StretchBefore(row.messages, row.reach)))
                self.first_us.setdefault(row.slot, row.first_us)

    def counts(self) -> dict[int, int]:
        return {slot: sum(own.messages for _number, own in found) for slot, found in self.stretches.items()}

    def before(self) -> dict[tuple[int, int], StretchBefore]:
        """What each stretch has to know of those before it."""
        before: dict[tuple[int, int], StretchBefore] = {}
        for slot, found in self.stretches.items():
            messages, reach = 0, NO_REACH
            for number, own in found:
                before[number, slot] = StretchBefore(messages, reach)
                # Its own reach was counted from its own first row on.
                messages, reach = messages + own.messages, max(reach, own.reach - messages)
        return before

    def last_us(self, slot: int) -> int:
        """The position of the last message."""
        number, own = self.stretches[slot][-1]
        messages, reach = self.before()[number, slot]
        return messages + own.messages - 1 + max(reach, own.reach - messages)


class LoadPlan:
    """A generation of a lane for each zone that gets rows."""

    def __init__(
        self,
        view: View,
        placing: RowPlacement,
        seen: RowSummary,
        now_us: int,
        learn: LearnStructures,
        layout: str | None = None,
    ) -> None:
        self._seen: Final = seen
        self._slots: Final = placing.slots()
        self._counts: Final = seen.counts()
        self._now_us: Final = now_us
        self.zones: Final = sorted({self._slots[slot][0] for slot in self._counts})
        firsts = {zone: min(seen.first_us[slot] for slot in self._used(zone)) for zone in self.zones}
        self._plans: Final = plan_lanes(view, firsts, now_us, layout)
        plans = {slot: self._plans[self._slots[slot][0]] for slot in self._counts}
        self.layouts: Final = Layouts(
            placing,
            learn({slot: LayoutChoice(plan.layout, plan.parameters) for slot, plan in plans.items()}),
            {slot: plan.after_serials[self._slots[slot][1]] for slot, plan in plans.items()},
            seen.before(),
        )

    def own_pairs(self) -> dict[int, list[Pair]]:
        """What the tables of each slot hold besides messages."""
        return {
            slot: structure.own_pairs(self._seen.last_us(slot)) for slot, structure in self.layouts.structures.items()
        }

    def entries(
        self, name: str, tables: Mapping[int, tuple[str, ...]], digests: Mapping[int, Digest]
    ) -> list[ShipmentEntry]:
        """For the shipment, given what was laid out of each slot."""
        for slot, count in self._counts.items():
            laid_out = digests[slot].messages if slot in digests else 0
            if laid_out != count:
                raise PermanentError(
                    f"{count:,} rows were seen and {laid_out:,} laid out: they changed meanwhile; run it again"
                )
        return [self._entry(zone, name, tables, digests) for zone in self.zones]

    def _entry(
        self, zone: str, name: str, tables: Mapping[int, tuple[str, ...]], digests: Mapping[int, Digest]
    ) -> ShipmentEntry:
        plan = self._plans[zone]
        own = [slot for slot, (owner, _number) in enumerate(self._slots) if owner == zone]
        used = self._used(zone)
        record = plan.record(
            min(self._seen.first_us[slot] for slot in used),
            max(self._seen.last_us(slot) for slot in used) + 1,
            [self._counts.get(slot, 0) for slot in own],
            self._now_us,
            **{LOAD: name, DIGEST: str(sum_digests(digests[slot] for slot in used))},
        )
        shards = dict(zip(own, plan.zone.shards, strict=True))
        heads = {
            shards[slot]: ShardHead(self._seen.last_us(slot), record.last_serial(shards[slot]), record.number)
            for slot in used
        }
        return ShipmentEntry(record, {shards[slot]: tables[slot] for slot in used}, plan.zone, heads)

    def _used(self, zone: str) -> list[int]:
        return [slot for slot in sorted(self._counts) if self._slots[slot][0] == zone]
