"""A load without Spark: the same steps, one worker, and as many rows as a test has."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.pipeline.bulk_load.lane_plan import make_placement
from holdfast.pipeline.bulk_load.plan import LearnStructures, LoadPlan, RowSummary
from holdfast.pipeline.bulk_load.rows import TOPIC, lay_out_stretch, summarise_stretch
from holdfast.pipeline.shipment.pair_batches import DIGEST_SLOT, Digest, read_digest
from holdfast.records.messages import decode_message
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure, learn
from holdfast.storage.rocks.shipments.parallel_learning import LayoutChoice
from holdfast.storage.rocks.shipments.shipment import TABLES, Shipment, make_folder, ship
from holdfast.storage.rocks.shipments.sst_files import SstWriter


class _Told(NamedTuple):
    """A row of SUMMARY."""

    kind: int
    stretch: int
    slot: int
    messages: int
    reach: int
    first_us: int
    text: bytes


class Row(NamedTuple):
    """A message that was published elsewhere, some time ago."""

    ts: int
    topic: str
    payload: bytes
    client_id: str = "elsewhere"
    qos: int = 1
    retain: bool = False


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict() for row in sorted(rows, key=lambda row: row.ts)])


def seen(rows: list[Row], data: Path, now_us: int, stretches: int = 1) -> tuple[RowSummary, LearnStructures]:
    with HistoryReader.open(data) as reader:
        placing = make_placement(reader.view())
    found = [
        _Told(**row)
        for at, piece in enumerate(cut(rows, stretches))
        for told in summarise_stretch([batch(piece)], at, placing, now_us)
        for row in told.to_pylist()
    ]
    # What Spark does with the topics of all stretches.
    topics: dict[int, Counter[bytes]] = {}
    for row in found:
        if row.kind == TOPIC:
            topics.setdefault(row.slot, Counter())[row.text] += row.messages

    def learn_all(layouts: Mapping[int, LayoutChoice]) -> dict[int, LayoutStructure]:
        return {slot: learn(layout, parameters, topics[slot]) for slot, (layout, parameters) in layouts.items()}

    return RowSummary([row for row in found if row.kind != TOPIC]), learn_all


def cut(rows: list[Row], stretches: int) -> list[list[Row]]:
    """By time, as Spark does."""
    ordered = sorted(rows, key=lambda row: row.ts)
    step = -(-len(ordered) // stretches)
    pieces = [ordered[at : at + step] for at in range(0, len(ordered), step)]
    if any(one[-1].ts == other[0].ts for one, other in pairwise(pieces)):
        raise PermanentError("rows with one time are in one stretch")
    return pieces


def shipped(
    rows: list[Row], data: Path, name: str, now_us: int, *, layout: str | None = None, stretches: int = 1
) -> Shipment:
    """What a job on Spark leaves for whoever holds the folder."""
    with HistoryReader.open(data) as reader:
        view = reader.view()
    found, learn_all = seen(rows, data, now_us, stretches)
    plan = LoadPlan(view, make_placement(view), found, now_us, learn_all, layout)
    pairs: dict[int, list[tuple[bytes, bytes]]] = {slot: list(own) for slot, own in plan.own_pairs().items()}
    digests: dict[int, Digest] = {}
    for at, piece in enumerate(cut(rows, stretches)):
        for one in lay_out_stretch([batch(piece)], at, plan.layouts):
            for row in one.to_pylist():
                if row["slot"] == DIGEST_SLOT:
                    slot, digest = read_digest(row["key"], row["value"])
                    digests[slot] = digests.get(slot, Digest()).plus(digest)
                else:
                    pairs[row["slot"]].append((row["key"], row["value"]))
    folder = make_folder(data, f"load-{name}")
    tables: dict[int, tuple[str, ...]] = {}
    for slot, own in pairs.items():
        writer = SstWriter(folder / TABLES, f"{slot:05d}")
        writer.write(sorted(own))
        tables[slot] = tuple(table.name for table in writer.close())
    return ship(folder, plan.entries(name, tables, digests), now_us)


def stored(data: Path, zone: str | None = None) -> list[tuple[int, int, str, bytes]]:
    """Position, serial, topic and payload of everything, in the order of time."""
    with HistoryReader.open(data) as reader:
        values = list(reader.start_replay(reader.parts(zone=zone)).records())
    found = [decode_message(value) for value in values]
    return sorted((one.position_us, one.serial, one.message.topic.decode(), one.message.payload) for one in found)
