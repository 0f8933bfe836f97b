"""Checks what a node of a cluster has: every row of every vnode decodes, and its shards have all their messages.

    rows        what records are decided by, heads, generations, numbers, retained messages, sessions, the control log
    messages    as in a log without a cluster: positions increase, serials are dense to the head (`shard_check.py`)

A generation without its family is one that is made again at the next start. Whether all nodes have the same is not
looked at here: they compare digests while they run.
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.records.cluster import control_rows, rows, vnode_keys
from holdfast.records.generations import Generation, decode_generation
from holdfast.records.meta_keys import GENERATION, HEAD, NUMBER, shard_of_key
from holdfast.records.positions import ShardHead, decode_head
from holdfast.records.session.numbers import decode_number
from holdfast.storage.rocks.checking.shard_check import ShardCheck
from holdfast.storage.rocks.checking.state_records import check_retained_row, check_session_row
from holdfast.storage.rocks.checking.verify_report import RESTORE, CheckedReader
from holdfast.storage.rocks.engine.column_families import CLUSTER
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.family_slice import FamilySlice

_DECODERS: Final[dict[int, Callable[[bytes], object]]] = {
    0x01: rows.decode_applied_row,
    0x02: rows.decode_clock,
    0x03: rows.decode_writer,
    0x04: rows.decode_closed,
    0x05: rows.decode_leader,
    0x06: rows.decode_holders,
    0x07: rows.decode_settings_row,
    0x08: rows.decode_level,
    0x09: rows.decode_registration,
    0x0A: rows.decode_assignment,
    0x0B: rows.decode_group_progress,
    0x0C: rows.decode_incarnation,
    0x0D: rows.decode_newest_version,
    0x20: control_rows.decode_founded,
    0x21: control_rows.decode_member,
    0x22: control_rows.decode_beat_row,
    0x23: control_rows.decode_snapshot_row,
    0x24: control_rows.decode_jobs_row,
    0x25: control_rows.decode_lease_row,
    0x26: control_rows.decode_erasure_row,
}


class _Vnode:
    """What is known of one vnode while its rows are read."""

    def __init__(self) -> None:
        self.generations: Final[dict[int, list[Generation]]] = {}
        self.heads: Final[dict[int, ShardHead]] = {}


def check_vnodes(engine: Engine, reader: CheckedReader) -> None:
    """Requires: the folder is one of a cluster."""
    report = reader.report
    vnodes: dict[int, _Vnode] = {}
    for key, value in reader.items(CLUSTER, engine.family(CLUSTER)):
        try:
            number, table, row = vnode_keys.split_key(key)
            _check_row(engine, vnodes.setdefault(number, _Vnode()), number, table, row, value)
        except HoldfastError as error:
            report.add(CLUSTER, f"table {key[2:3].hex()}", f"key {key.hex()}: {error}", RESTORE)
    families = engine.families()
    for number, vnode in vnodes.items():
        for shard, generations in vnode.generations.items():
            check = ShardCheck(engine, reader, shard, vnode.heads.get(shard))
            problems = len(report.problems)
            if generations[0].number == 1:
                check.begin()
            for record in generations:
                if record.family(shard) in families:
                    check.check(record)
                else:
                    report.notes.append(f"vnode {number}: {record.family(shard)} is made at the next start")
                    check.passed(record)
            if len(report.problems) == problems:
                check.end()


def _check_row(engine: Engine, vnode: _Vnode, number: int, table: int, row: bytes, value: bytes) -> None:
    rows_of_table = FamilySlice(engine, CLUSTER, vnode_keys.table_prefix(number, table))
    if table == vnode_keys.STATE:
        decode = _DECODERS.get(row[0])
        if decode is None:
            raise PermanentError("it is of no known kind")
        decode(value)
    elif table == vnode_keys.META:
        _check_meta(vnode, row, value)
    elif table == vnode_keys.RETAINED:
        check_retained_row(rows_of_table, row, value)
    else:
        check_session_row(rows_of_table, row, value)


def _check_meta(vnode: _Vnode, row: bytes, value: bytes) -> None:
    if row[0] == GENERATION:
        record = decode_generation(row, value)
        vnode.generations.setdefault(record.shards[0], []).append(record)
    elif row[0] == HEAD:
        vnode.heads[shard_of_key(row)] = decode_head(value)
    elif row[0] == NUMBER:
        decode_number(value)
    else:
        raise PermanentError("it is of no known kind")
