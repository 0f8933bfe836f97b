"""The zones of a vnode, as they stand in its log: what decides into which shard a message goes.

    settings      0 version u8 = 1 │ zones u16, each │ mount points u16, each blob
    zone          name text │ shard u16 │ flags u8: 1 it stores QoS 0 │ layout text │ parameters
                  │ filters u16, each blob
    parameters    u16, each name text and value, as in a generation (`records/generations.py`)

The first zone is the default one and has no filters. Layout and parameters are those of a shard's first generation. A
shard is the part of one zone in one vnode: its number is its own in the whole cluster. Everything else of a zone, such
as how long it is kept, changes nothing of how a record is applied, and is no part of this.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, blob, text, u8, u16
from holdfast.records.generations import Parameter, encode_parameters, read_parameters

#: Never change.
VERSION: Final = 1
_STORES_QOS0: Final = 0x01


@dataclass(frozen=True)
class VnodeZone:
    """A zone in one vnode. Filters are written as clients write them, without mount points."""

    name: str
    shard: int
    layout: str
    parameters: dict[str, Parameter]
    filters: tuple[bytes, ...] = ()
    _: KW_ONLY
    store_qos0: bool = False


@dataclass(frozen=True)
class VnodeSettings:
    """1. There is at least one zone; the first is the default, without filters. 2. Mount points end with `/`."""

    zones: tuple[VnodeZone, ...]
    mounts: tuple[bytes, ...] = ()


def encode_settings(settings: VnodeSettings) -> bytes:
    parts = [u8(VERSION), u16(len(settings.zones))]
    for zone in settings.zones:
        parts.extend([text(zone.name), u16(zone.shard), u8(_STORES_QOS0 if zone.store_qos0 else 0), text(zone.layout)])
        parts.extend([encode_parameters(zone.parameters), u16(len(zone.filters))])
        parts.extend([blob(raw) for raw in zone.filters])
    parts.append(u16(len(settings.mounts)))
    parts.extend([blob(mount) for mount in settings.mounts])
    return b"".join(parts)


def decode_settings(value: bytes) -> VnodeSettings:
    fields = RecordReader(value, "the settings of a vnode", VERSION)
    zones: list[VnodeZone] = []
    for _zone in range(fields.u16("the zones")):
        name = fields.text("a zone")
        shard = fields.u16("a shard")
        flags = fields.u8("the flags")
        if flags > _STORES_QOS0:
            raise PermanentError(f"zone {name!r} of a vnode has flags 0x{flags:02X}, which no version wrote")
        layout = fields.text("a layout")
        parameters = read_parameters(fields)
        filters = tuple([fields.blob("a filter") for _filter in range(fields.u16("the filters"))])
        zones.append(VnodeZone(name, shard, layout, parameters, filters, store_qos0=flags != 0))
    mounts = tuple([fields.blob("a mount point") for _mount in range(fields.u16("the mount points"))])
    fields.end()
    if not zones or zones[0].filters or not all(zone.filters for zone in zones[1:]):
        raise PermanentError("the settings of a vnode begin with the default zone, the only one without filters")
    return VnodeSettings(tuple(zones), mounts)
