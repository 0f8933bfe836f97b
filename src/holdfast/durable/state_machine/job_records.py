"""Leases and erasures of a cluster, as its control log has them.

1. A lease is replaced by one that was renewed later, on whichever node. One that was removed stays as a removal: an
   older word of a node that was away does not bring it back.
2. An erasure covers more with each record about the same client or filter, never less.
3. There are `MAX_LEASES` and `MAX_ERASURES` at most, of `MAX_ITEM_BYTES` each: all of them fit into a snapshot of the
   tables. A lease more takes the place of the oldest removal; without one it is rejected. So is an erasure more.
4. The row `jobs` has the sequence of the last record that changed something here, for who has to look.
"""

from typing import Final

from holdfast.durable.state_machine.tables import CLUSTER, StateTables, TableChanges
from holdfast.records.cluster.control_rows import (
    JOBS_KEY,
    decode_erasure_row,
    decode_jobs_row,
    decode_lease_row,
    encode_erasure_row,
    encode_jobs_row,
    encode_lease_row,
    erasure_key,
    erasures_range,
    lease_key,
    leases_range,
)
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem, encode_erasure, encode_lease

MAX_LEASES: Final = 256
MAX_ERASURES: Final = 1000
#: 256 shards, and a name or a filter.
MAX_ITEM_BYTES: Final = 4096


# ---- what the tables say


def last_job(tables: StateTables) -> int:
    """The sequence of the last record that has changed a lease or an erasure; 0 if there is none."""
    value = tables.get(CLUSTER, JOBS_KEY)
    return 0 if value is None else decode_jobs_row(value)


def all_leases(tables: StateTables) -> dict[str, LeaseItem]:
    """By name; those that were removed, too."""
    found = [decode_lease_row(value) for _key, value in tables.scan(CLUSTER, *leases_range(), 0)]
    return {item.name: item for item in found}


def all_erasures(tables: StateTables) -> list[ErasureItem]:
    return [decode_erasure_row(value) for _key, value in tables.scan(CLUSTER, *erasures_range(), 0)]


# ---- deciding


def keep_job(tables: TableChanges, sequence: int, item: LeaseItem | ErasureItem) -> bool:
    """Whether an item counts; then its row is there."""
    counts = _keep_lease(tables, item) if isinstance(item, LeaseItem) else _keep_erasure(tables, item)
    if counts:
        tables.put(CLUSTER, JOBS_KEY, encode_jobs_row(sequence))
    return counts


def _keep_lease(tables: TableChanges, item: LeaseItem) -> bool:
    if not item.name or len(encode_lease(item)) > MAX_ITEM_BYTES:
        return False
    leases = all_leases(tables)
    known = leases.get(item.name)
    if known is not None and item.renewed_us <= known.renewed_us:
        return False
    if known is None and len(leases) >= MAX_LEASES:
        removed = [(lease.renewed_us, lease.name) for lease in leases.values() if lease.is_removed]
        if not removed:
            return False
        tables.delete(CLUSTER, lease_key(min(removed)[1]))
    tables.put(CLUSTER, lease_key(item.name), encode_lease_row(item))
    return True


def _keep_erasure(tables: TableChanges, item: ErasureItem) -> bool:
    if (item.client == "") == (item.topic == b"") or len(encode_erasure(item)) > MAX_ITEM_BYTES:
        return False
    key = erasure_key(item)
    value = tables.get(CLUSTER, key)
    up_to = dict(item.up_to)
    if value is not None:
        known = dict(decode_erasure_row(value).up_to)
        if all(known.get(shard, -1) >= position_us for shard, position_us in up_to.items()):
            return False
        for shard, position_us in known.items():
            up_to[shard] = max(position_us, up_to.get(shard, 0))
    elif len(tables.scan(CLUSTER, *erasures_range(), 0)) >= MAX_ERASURES:
        return False
    merged = ErasureItem(item.client, item.topic, tuple(sorted(up_to.items())), item.made_us, item.made_by)
    tables.put(CLUSTER, key, encode_erasure_row(merged))
    return True
