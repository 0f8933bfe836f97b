"""`verify`: reads all that a node has stored, and says what is wrong with it and what to do.

1. RocksDB's own checksums of every block; every record decodes.
2. Zones, generations, column families, heads and ceilings fit together.
3. Messages: under the key that their layout gives them, positions increasing and inside their generation, serials dense
   from the first that is kept to the head. So a message that is missing is noticed, and named.
   Of a node in a cluster, all rows of its vnodes and all messages of their shards (`vnode_check.py`).
4. The learned structure knows every topic, and postings lead to every message.

It changes nothing. A folder is opened as a broker would open it, so damage that an opening mends is mended by this too,
with a report (`recovery.py`). A long work: not on the loop of a broker.
"""

from pathlib import Path

from holdfast.model.errors import SettingsError
from holdfast.storage.rocks.checking.meta_records import StoredMeta, check_zones, live_generations, read_meta
from holdfast.storage.rocks.checking.shard_check import ShardCheck
from holdfast.storage.rocks.checking.state_records import check_retained, check_sessions
from holdfast.storage.rocks.checking.verify_report import RESTORE, CheckedReader, Progress, VerifyReport
from holdfast.storage.rocks.checking.vnode_check import check_vnodes
from holdfast.storage.rocks.engine.column_families import CLUSTER, META, RETAINED, SESSIONS
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.options import DEFAULT


def verify_folder(folder: Path, progress: Progress | None = None) -> VerifyReport:
    """Requires: no broker runs on the folder."""
    if not (folder / "rocks").is_dir():
        raise SettingsError(f"{folder} is no data folder: it has no database in it")
    engine = Engine.open(folder, reserve_bytes=0)
    try:
        return verify_stored(engine, progress)
    finally:
        engine.close()


def verify_stored(engine: Engine, progress: Progress | None = None) -> VerifyReport:
    """Requires: nothing is written meanwhile."""
    report = VerifyReport()
    for damage in engine.damage:
        report.add(damage.file, "found at open", str(damage), f"look into {engine.folder / 'quarantine'}; {RESTORE}")
    if engine.torn_tail:
        report.notes.append(f"cut off, as a crash leaves it: {engine.torn_tail}")
    reader = CheckedReader(report, progress)
    families = engine.families()
    for _item in reader.items(DEFAULT, engine.family(DEFAULT)):
        pass
    if CLUSTER in families:
        check_vnodes(engine, reader)
        return report
    if META not in families:
        report.add(META, "families", "the family is missing", RESTORE)
        return report
    stored = read_meta(reader, engine.family(META))
    check_zones(stored, report)
    _check_log(engine, reader, stored, families)
    if RETAINED in families:
        check_retained(reader, engine.family(RETAINED))
    if SESSIONS in families:
        check_sessions(reader, engine.family(SESSIONS))
    return report


def _check_log(engine: Engine, reader: CheckedReader, stored: StoredMeta, families: list[str]) -> None:
    report = reader.report
    live = live_generations(stored, families, report)
    for zone, generations in stored.generations.items():
        numbers = {record.number for record in live[zone]}
        for shard in sorted({shard for record in generations for shard in record.shards}):
            check = ShardCheck(engine, reader, shard, stored.heads.get(shard))
            own = [record for record in generations if shard in record.shards]
            problems = len(report.problems)
            if generations[0].number == 1:
                check.begin()
            for record in own:
                if record.number in numbers:
                    check.check(record)
                else:
                    check.passed(record)
            if len(report.problems) == problems:
                check.end()
