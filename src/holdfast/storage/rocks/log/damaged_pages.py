"""Commit pages that cannot be read: found, copied to the quarantine, and left out from then on (layout `paged`).

    commit pages      [ read ] [ read ] [ damaged ] [ read ]
                                        └─────────┘
                                        a copy in quarantine/<time>/, the range in the generation's record (`lost`)

1. A page is deleted only after its copy is on disk, in one batch with the record that names what is lost, and the mark.
2. What is lost follows from the pages around it: their positions and serials, or the end of the shard.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.durable.log import NO_END
from holdfast.durable.tails import POSITION
from holdfast.files.private import FOLDER_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError
from holdfast.records.meta_keys import head_key
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.records.pages.lost_pages import LostPages
from holdfast.records.positions import decode_head
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.quarantine import QUARANTINE_NAME, Damage, Quarantine
from holdfast.storage.rocks.engine.scan import FamilyReader, check_end
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_mark
from holdfast.storage.rocks.layouts.segments import SegmentReader, open_shard
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ShardGeneration, ZoneGenerations

_KEY_BYTES: Final = 9


@dataclass(frozen=True, slots=True)
class DamagedPages:
    """Damaged commit pages that follow each other, by their keys; and the page behind them, if there is one."""

    pages: list[tuple[bytes, bytes]]
    next_us: int
    next_serial: int

    def first_us(self) -> int:
        return position_of(self.pages[0][0])


def position_of(key: bytes) -> int:
    return int(POSITION.unpack_from(key, 1)[0])


def check_page(key: bytes, value: bytes) -> CommitPage:
    """A commit page, read whole. PermanentError if it is damaged."""
    try:
        page = CommitPage(value)
        if len(key) != _KEY_BYTES or key[1:] != POSITION.pack(page.first_us):
            raise PermanentError(f"a commit page from position {page.first_us} on lies under a key of another")
        page.messages(0, page.count, 0)
    except (IndexError, ValueError, OverflowError, struct.error) as damage:
        raise PermanentError(f"a commit page cannot be read: {damage}") from damage
    return page


def find_damaged(family: FamilyReader, last_us: int) -> DamagedPages | None:
    """The first damaged pages above the mark, looking as far as the first page behind a position."""
    cursor, mark_us = open_shard(family)
    cursor.seek(MESSAGES + POSITION.pack(mark_us + 1))
    pages: list[tuple[bytes, bytes]] = []
    while cursor.valid() and cursor.key()[:1] == MESSAGES:
        key, value = bytes(cursor.key()), bytes(cursor.value())
        try:
            page = check_page(key, value)
        except PermanentError:
            pages.append((key, value))
        else:
            if pages:
                return DamagedPages(pages, page.first_us, page.first_serial)
            if position_of(key) > last_us:
                return None
        cursor.next()
    check_end(cursor)
    return DamagedPages(pages, NO_END, 0) if pages else None


def lost_by(
    engine: Engine, zone: ZoneGenerations, generation: LiveGeneration, piece: ShardGeneration, damaged: DamagedPages
) -> LostPages:
    """What damaged pages held, as the messages before and behind them tell. Requires: nothing waits to be written."""
    record = generation.record
    family = engine.family(piece.family)
    shard = next(shard for shard, other in generation.by_shard.items() if other is piece)
    if damaged.next_serial:
        last_us, last_serial = damaged.next_us - 1, damaged.next_serial - 1
    elif record.end_us:
        last_us, last_serial = record.end_us - 1, record.last_serial(shard)
    else:
        head = decode_head(bytes(engine.family(META).get(head_key(shard)) or b""))
        last_us, last_serial = head.position_us, head.serial
    earlier = [other for other in [*zone.dropped, *[one.record for one in zone.live]] if other.number < record.number]
    before = [other.last_serial(shard) for other in earlier if shard in other.shards]
    before += [lost.last_serial() for lost in record.lost_pages(shard)]
    if read_mark(family) != NOTHING_INDEXED:
        segments = SegmentReader(family, engine.family(record.segments_family()))
        before += [one.first_serial + one.serials - 1 for one in segments.directories(0, NO_END)]
    first_serial = max([0, *before]) + 1
    return LostPages(shard, damaged.first_us(), last_us, first_serial, last_serial - first_serial + 1)


def keep_damaged(folder: Path, family: str, damaged: DamagedPages, detail: str) -> Path:
    """Copy damaged pages to the quarantine of a data folder. Survives: a power loss."""
    quarantine = Quarantine(folder / QUARANTINE_NAME)
    quarantine.folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    names: list[str] = []
    for key, value in damaged.pages:
        names.append(f"{family}-{position_of(key)}.page")
        replace_file(quarantine.folder / names[-1], value)
    quarantine.report([Damage("damaged commit page", ", ".join(names), detail, None)])
    return quarantine.folder
