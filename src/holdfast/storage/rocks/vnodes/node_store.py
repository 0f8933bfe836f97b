"""What a node of a cluster has in its database: the tables and messages of its vnodes, and the stores over all of them.

    vnode 0   RocksVnode ◀── VnodeApplier          log        messages of all shards
    vnode 1   RocksVnode ◀── VnodeApplier          sessions   retained   numbers
      …            │                                   ▲
                   └── one database ───────────────────┘

The appliers write, each into its own vnode; the stores only read. A store shows what was applied as soon as its batch
is written, so it does not have to be told of an outcome.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.records.cluster import vnode_keys
from holdfast.records.cluster.control_rows import CONTROL_VNODE
from holdfast.records.fields import key_u16
from holdfast.records.generations import Generation, decode_generation
from holdfast.records.meta_keys import GENERATION, HEAD, ZONE, all_of, shard_of_key, zone_of_key
from holdfast.records.positions import decode_head
from holdfast.storage.rocks.engine.column_families import CLUSTER, META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.sessions.inflight_finder import Gone
from holdfast.storage.rocks.vnodes.vnode_log import VnodeLog
from holdfast.storage.rocks.vnodes.vnode_messages import VnodeMessages, repair_families
from holdfast.storage.rocks.vnodes.vnode_retained import VnodeRetained
from holdfast.storage.rocks.vnodes.vnode_segments import VnodeSegments
from holdfast.storage.rocks.vnodes.vnode_sessions import HeldVnodes, VnodeNumbers, VnodeSessions
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode


class VnodeStores:
    """The stores of a node in a cluster. Survives: a killed process; of a power loss, what was synced before it."""

    def __init__(
        self, engine: Engine, clock: Clock, count: int, held: Iterable[int] | None = None, gone: Gone | None = None
    ) -> None:
        """`count` is the number of vnodes of the cluster, `held` those that this node has; all of them without it.

        `gone` is told of messages in flight that are not there any more when their session is loaded.
        Ensures: families are those of the generations that the rows name, whenever the last run was killed.
        PermanentError if rows cannot be read, name a shard twice, or a layout that is not stored here. SettingsError if
        the folder is that of a node without a cluster, or of a cluster with more vnodes.
        """
        if CLUSTER not in engine.families():
            engine.create_family(CLUSTER)
        _check_folder(engine, count)
        meta = {
            number: FamilySlice(engine, CLUSTER, vnode_keys.table_prefix(number, vnode_keys.META))
            for number in range(count)
        }
        generations = {number: _generations(table) for number, table in meta.items()}
        # Those of vnodes that are not held, too: what is on disk goes with its rows.
        repair_families(engine, [record for records in generations.values() for record in records])
        segments = SegmentFamilies(engine)
        #: A `MessageLog`.
        self.log: Final = VnodeLog(engine)
        #: What appliers write into.
        self.vnodes: Final[dict[int, RocksVnode]] = {}
        self.retained: Final = VnodeRetained(self.vnodes, clock)
        for number in range(count) if held is None else held:
            messages = VnodeMessages(engine, number, self.log, segments)
            heads = {shard_of_key(key): decode_head(value) for key, value in meta[number].items(*all_of(HEAD))}
            messages.load(generations[number], heads)
            self.vnodes[number] = RocksVnode(engine, number, messages, self.log.at, self.retained.at, gone)
        #: What makes segments works on it (`VnodeSegments.writer`).
        self.segments: Final = VnodeSegments(engine, self.log, self._is_written)
        here = HeldVnodes(count, self.vnodes)
        self.sessions: Final = VnodeSessions(here)
        self.numbers: Final = VnodeNumbers(here)
        engine.on_reopened(self.log.revoke)

    def _is_written(self) -> bool:
        return all(vnode.is_written() for vnode in self.vnodes.values())


def _check_folder(engine: Engine, count: int) -> None:
    """Refuse a folder whose families of messages belong to others: they would be taken for strays."""
    zones = list(scan_items(engine.family(META), *all_of(ZONE))) if META in engine.families() else []
    if zones:
        raise SettingsError(
            f"{engine.folder} is the folder of a node without a cluster (zone {zone_of_key(zones[0][0])!r}); a node of "
            "a cluster needs an empty folder"
        )
    # The tables of the control log stand behind all vnodes.
    beyond = next(scan_items(engine.family(CLUSTER), key_u16(count), key_u16(CONTROL_VNODE)), None)
    if beyond is not None:
        number, _table, _key = vnode_keys.split_key(beyond[0])
        raise SettingsError(
            f"{engine.folder} has vnode {number}, and the cluster has {count} vnodes, numbered from 0; their number is "
            "fixed when a cluster is made"
        )


def _generations(meta: FamilySlice) -> list[Generation]:
    """The generations of a vnode, by zone, oldest first."""
    return [decode_generation(key, value) for key, value in meta.items(*all_of(GENERATION))]
