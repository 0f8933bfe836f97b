"""A lake whose files overlap, what a plain walk through its log finds, and what a sweep does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.durable.lake_page import LakeQuestion
from holdfast.durable.log import NO_END
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_sweep import HELD_BYTES, lake_files, sweep
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.lake.upkeep import compact
from holdfast.pipeline.lake.writer import lock_folder
from holdfast.records.messages import decode_message
from holdfast.topics.filters import parse_filter
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.local_archive import archive, here

#: Shard, position, serial, topic, payload.
Row = tuple[int, int, int, bytes, bytes]


def everything(log: Log, text: str = "#", first_us: int = 0, before_us: int = NO_END) -> list[Row]:
    """By a plain walk through the log."""
    wanted = parse_filter(text.encode())
    rows = [
        (shard, stored.position_us, serial, stored.message.topic, stored.message.payload)
        for (shard, serial), stored in log.walk().items()
        if wanted.matches(stored.message.topic) and first_us <= stored.position_us < before_us
    ]
    return sorted(rows, key=lambda row: (row[1], row[0]))


def question_of(log: Log, text: str = "#", first_us: int = 0, before_us: int = NO_END) -> LakeQuestion:
    return LakeQuestion(parse_filter(text.encode()).levels, dict.fromkeys(range(3), (first_us, before_us)))


def swept(lake: Path, question: LakeQuestion, held_bytes: int = HELD_BYTES) -> list[Row]:
    opened = Lake.open(lake)
    found: list[Row] = []
    up_to_us = 0
    for page in sweep(opened.store, lake_files(opened, question), question, held_bytes):
        assert page.up_to_us >= up_to_us
        for shard, record in page.records:
            stored = decode_message(record)
            assert up_to_us < stored.position_us <= page.up_to_us, "not where an earlier page said that nothing is"
            found.append((shard, stored.position_us, stored.serial, stored.message.topic, stored.message.payload))
        up_to_us = page.up_to_us
    return found


def fill(log: Log, lake: LakeAddress) -> None:
    """Several batches and generations, so that files overlap by patterns, and follow each other by time."""
    for _generation in range(3):
        log.fill(600)
        archive(log.path, lake, batch_rows=250)
        log.rotate()


def compacted(lake: Path) -> None:
    with lock_folder(lake):
        assert compact(Lake.open(lake), here, today=datetime.now(UTC) + timedelta(days=2)) > 0
