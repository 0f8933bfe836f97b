"""The zones and generations of a data folder, as its rows have them: of one node, or of a node in a cluster.

    one node             family `meta`       a zone has generations, each with all its shards
    a node of a cluster  family `cluster`    a zone is in parts: each shard has its own generations

To its readers both look alike: a generation has one or more shards, and what concerns a shard concerns the generations
that have it. What was dropped is known on one node from records that are kept, and in a cluster from the serials around
the gap.
"""

from functools import partial
from pathlib import Path
from typing import Final

from holdfast.history.reader.secondary import Secondary
from holdfast.history.reader.view import View, ZoneView
from holdfast.records.generations import Generation, ZoneRecord, decode_generation, decode_zone
from holdfast.records.meta_keys import GENERATION, ZONE, all_of
from holdfast.storage.rocks.engine.column_families import CLUSTER, META, check_format
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.storage.rocks.vnodes.stored_parts import StoredParts, missing_generations, read_parts, serial_before

#: Shard and number of a generation.
Place = tuple[int, int]


class Catalog:
    """What can be read of a folder, with the layouts that read it."""

    def __init__(self, folder: Path, secondary: Secondary) -> None:
        self._folder: Final = folder
        self._secondary: Final = secondary
        self._segments: Final = SegmentFamilies(secondary)
        self._database = secondary.database
        self._live: dict[Place, LiveGeneration] = {}
        #: Serials before the gaps of a cluster's shards, by the generation behind a gap.
        self._before: Final[dict[Place, int]] = {}

    @property
    def is_of_cluster(self) -> bool:
        return CLUSTER in self._secondary.names()

    def find(self, shard: int, number: int) -> LiveGeneration | None:
        """A generation that was there at the last `load`."""
        return self._live.get((shard, number))

    def clear(self) -> None:
        self._live.clear()

    def load(self, heads: dict[int, Head]) -> View:
        """What the database holds now. Requires: the heads were read before the secondary has caught up."""
        if self._database != self._secondary.database:
            # The node was installed again: the same names, and nothing that was remembered of them.
            self._database = self._secondary.database
            self._segments.forget()
            self._live.clear()
            self._before.clear()
        meta = self._secondary.family(META)
        check_format(meta, self._folder)
        if self.is_of_cluster:
            return self._load_parts(heads, read_parts(self._secondary.family(CLUSTER)))
        zones = [decode_zone(key, value) for key, value in scan_items(meta, *all_of(ZONE))]
        records = [decode_generation(key, value) for key, value in scan_items(meta, *all_of(GENERATION))]
        return self._view(heads, zones, records)

    def _load_parts(self, heads: dict[int, Head], stored: StoredParts) -> View:
        records = [record for of_shard in stored.generations.values() for record in of_shard]
        # Of all shards by number, as the generations of one node.
        records.sort(key=lambda record: (record.number, record.shards))
        rows = {shard: Head(row.position_us, row.serial) for shard, row in stored.heads.items()}
        nothing = Head(0, 0)
        # Heads of a database that was replaced since they were read may be above what is there.
        view = self._view(
            {shard: min(head, rows.get(shard, nothing)) for shard, head in heads.items()},
            list(stored.zones.values()),
            records,
        )
        for shard, of_shard in stored.generations.items():
            live = [one for record in of_shard if (one := self.find(shard, record.number)) is not None]
            serial_of = partial(self._serial_before, head_serial=rows.get(shard, nothing).serial)
            for gap in missing_generations(live, serial_of):
                view.dropped[gap.zone].append(gap)
        return view

    def _serial_before(self, live: LiveGeneration, head_serial: int) -> int:
        place = (live.record.shards[0], live.record.number)
        if place not in self._before:
            self._before[place] = serial_before(live, head_serial, self._secondary)
        return self._before[place]

    def _view(self, heads: dict[int, Head], zones: list[ZoneRecord], records: list[Generation]) -> View:
        there = set(self._secondary.names())
        known, self._live = self._live, {}
        live: dict[str, list[Generation]] = {zone.name: [] for zone in zones}
        dropped: dict[str, list[Generation]] = {zone.name: [] for zone in zones}
        for record in records:
            if all(record.family(shard) in there for shard in record.shards):
                generation = known.get((record.shards[0], record.number))
                if generation is None or generation.record.edition != record.edition:
                    generation = LiveGeneration(record, segments=self._segments)
                generation.record = record
                self._live.update({(shard, record.number): generation for shard in record.shards})
                live[record.zone].append(record)
            else:
                dropped[record.zone].append(record)
        views = {zone.name: ZoneView(zone.name, zone.filters, zone.shards) for zone in zones}
        return View(heads, views, live, dropped, self.is_of_cluster)
