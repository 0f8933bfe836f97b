"""Zones and their generations, as `meta` keeps them.

    zone          0 version u8 = 1 | 1 created i64 (µs) | 9 shards u16 | their ids u16 … | filters u16 | each text …

    generation    0 version u8 = 1 | 1 number u32 | 5 inherits u32 | 9 created i64 (µs) | 17 start i64 | 25 end i64
                 33 layout text | parameters u16, each name text and value
                  | shards u16, each id u16 and last serial u64

    value of a    0 kind u8: 1 a number i64 | 2 a text | 3 a count u16 and that many numbers i64
    parameter

The zone's name stands in the key. Parameters are sorted by name, so that equal generations have equal bytes.

A generation that was ingested, or written again in another layout, has an *edition*: the same number,
shards, positions and serials in column families of other names. Its record has version 2, and the edition, u64, at its
end. An edition is the time of its ingestion, in µs: a family whose name was used before, and dropped, would end
every process that reads the log beside the broker, because RocksDB's secondaries take one for the other and crash.
"""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.pickled import Reduced, reduce_by_fields
from holdfast.records.fields import RecordReader, i64, text, u8, u16, u32, u64
from holdfast.records.meta_keys import zone_of_key
from holdfast.records.pages.lost_pages import LOST, LostPages, format_lost, parse_lost

#: Never change.
VERSION: Final = 1
#: Of a generation that is not in its first edition. Never change.
EDITED_VERSION: Final = 2
_NUMBER: Final = 1
_TEXT: Final = 2
_NUMBERS: Final = 3
#: What names of column families begin with. Never change.
_MESSAGES: Final = "log"
_SEGMENTS: Final = "segments"

Parameter = int | str | tuple[int, ...]


class ZoneRecord:
    """What was given to a zone for good: 1. the ids of its shards keep their order and are never taken back."""

    def __init__(self, name: str, shards: tuple[int, ...], filters: tuple[str, ...], created_us: int) -> None:
        self.name: Final = name
        self.shards: Final = shards
        #: As they were when the record was written: for people, and to notice a change.
        self.filters: Final = filters
        self.created_us: Final = created_us


@dataclass(frozen=True, eq=False)
class Generation:
    """A time slice of a zone.

    1. Its positions lie in [start_us, end_us), in all its shards; end_us is 0 as long as it is open.
    2. Layout, parameters and shards never change once it is created, except for what was lost (`lost_pages.py`).
    3. `last_serials` holds, shard by shard, the last serial at the time of sealing; zeros while it is open. With those
       of the generation before, it tells how many messages are gone when a generation is dropped.
    4. Another edition has the same messages, at the same positions and with the same serials.
    """

    zone: str
    #: The first is 1.
    number: int
    layout: str
    parameters: dict[str, Parameter]
    start_us: int
    shards: tuple[int, ...]
    created_us: int
    _: KW_ONLY
    #: The generation whose learned structure it began with; 0 if none.
    inherits: int = 0
    end_us: int = 0
    last_serials: tuple[int, ...] = ()
    #: 0 if the broker wrote it itself; else no other edition of it has the same.
    edition: int = 0

    def __post_init__(self) -> None:
        if not self.last_serials:
            object.__setattr__(self, "last_serials", (0,) * len(self.shards))
        if len(self.last_serials) != len(self.shards):
            raise MisuseError(
                f"generation {self.number} has {len(self.shards)} shards and {len(self.last_serials)} last serials"
            )

    def __reduce__(self) -> Reduced:
        return reduce_by_fields(self)

    def family(self, shard: int) -> str:
        """The column family of one of its shards."""
        return family_name(shard, self.number, self.edition)

    def segments_family(self) -> str:
        """The column family of the segments of all its shards, if its layout has segments."""
        return segments_name(self.shards[0], self.number, self.edition)

    def families(self) -> list[str]:
        """All its column families: without one of its shards it is not whole, and segments follow shards."""
        return [*[self.family(shard) for shard in self.shards], self.segments_family()]

    def lost_pages(self, shard: int) -> list[LostPages]:
        """What was lost of a shard, in the order of time."""
        lost = self.parameters.get(LOST)
        return [] if lost is None else [one for one in parse_lost(str(lost)) if one.shard == shard]

    def without(self, lost: LostPages) -> "Generation":
        """The same generation, with more that was lost."""
        known = self.parameters.get(LOST)
        ranges = [*([] if known is None else parse_lost(str(known))), lost]
        return replace(self, parameters={**self.parameters, LOST: format_lost(ranges)})

    def last_serial(self, shard: int) -> int:
        return self.last_serials[self.shards.index(shard)]

    def sealed(self, end_us: int, last_serials: tuple[int, ...]) -> "Generation":
        """The same generation, closed: nothing at or above `end_us` is written to it."""
        if end_us < self.start_us or end_us <= 0:
            raise MisuseError(f"generation {self.number} starts at {self.start_us} and cannot end at {end_us}")
        return replace(self, end_us=end_us, last_serials=last_serials)

    def in_edition(self, edition: int) -> "Generation":
        """The same messages, in other families."""
        return replace(self, inherits=0, edition=edition)

    def edited(self, layout: str, parameters: dict[str, Parameter], created_us: int) -> "Generation":
        """The next edition of a sealed generation: its messages in another layout, or in another form of it.

        `created_us` is the present if it is brought back, so that retention lets it stay a while.
        """
        if not self.end_us:
            raise MisuseError(f"generation {self.number} is open; only what is sealed can be written again")
        edition = self.in_edition(self.edition + 1)
        if LOST in self.parameters:
            parameters = {**parameters, LOST: self.parameters[LOST]}
        return replace(edition, layout=layout, parameters=parameters, created_us=created_us)


def family_name(shard: int, generation: int, edition: int = 0) -> str:
    """The column family of a shard's generation. Never change."""
    name = f"{_MESSAGES}-{shard:05d}-{generation:08d}"
    return f"{name}-{edition}" if edition else name


def segments_name(first_shard: int, generation: int, edition: int = 0) -> str:
    """The column family of a generation's segments. Never change."""
    return _SEGMENTS + family_name(first_shard, generation, edition).removeprefix(_MESSAGES)


def family_parts(name: str) -> tuple[int, int] | None:
    """Shard and generation of a column family of messages or segments, in any edition; None if it holds others."""
    parts = name.split("-")
    if len(parts) not in (3, 4) or not (parts[1] + parts[-1] + parts[2]).isdigit():
        return None
    shard = int(parts[1])
    generation = int(parts[2])
    edition = int(parts[3]) if len(parts) == 4 else 0
    names = (family_name(shard, generation, edition), segments_name(shard, generation, edition))
    return (shard, generation) if name in names else None


def encode_zone(zone: ZoneRecord) -> bytes:
    parts = [u8(VERSION), i64(zone.created_us), u16(len(zone.shards))]
    parts.extend([u16(shard) for shard in zone.shards])
    parts.append(u16(len(zone.filters)))
    parts.extend([text(topic_filter) for topic_filter in zone.filters])
    return b"".join(parts)


def decode_zone(key: bytes, value: bytes) -> ZoneRecord:
    name = zone_of_key(key)
    fields = RecordReader(value, f"the record of zone {name!r}", VERSION)
    created_us = fields.i64("the time")
    shards = tuple([fields.u16("a shard") for _index in range(fields.u16("the shards"))])
    filters = tuple([fields.text("a filter") for _index in range(fields.u16("the filters"))])
    fields.end()
    return ZoneRecord(name, shards, filters, created_us)


def encode_generation(generation: Generation) -> bytes:
    parts = [
        u8(EDITED_VERSION if generation.edition else VERSION),
        u32(generation.number),
        u32(generation.inherits),
        i64(generation.created_us),
        i64(generation.start_us),
        i64(generation.end_us),
        text(generation.layout),
        encode_parameters(generation.parameters),
        u16(len(generation.shards)),
    ]
    for i, shard in enumerate(generation.shards):
        parts.append(u16(shard))
        parts.append(u64(generation.last_serials[i]))
    if generation.edition:
        parts.append(u64(generation.edition))
    return b"".join(parts)


def decode_generation(key: bytes, value: bytes) -> Generation:
    zone = zone_of_key(key)
    # An older Holdfast refuses version 2: it would take the generation for dropped, and its families for strays.
    fields = RecordReader(value, f"a generation of zone {zone!r}", EDITED_VERSION)
    number = fields.u32("the number")
    if number != int.from_bytes(key[-4:], "big"):
        raise PermanentError(f"generation {number} of zone {zone!r} lies under the key {key.hex()} of another")
    inherits = fields.u32("what it inherits")
    created_us = fields.i64("the time")
    start_us = fields.i64("the start")
    end_us = fields.i64("the end")
    layout = fields.text("the layout")
    parameters = read_parameters(fields)
    shards: list[int] = []
    last_serials: list[int] = []
    for _index in range(fields.u16("the shards")):
        shards.append(fields.u16("a shard"))
        last_serials.append(fields.u64("a last serial"))
    edition = fields.u64("the edition") if fields.version == EDITED_VERSION else 0
    fields.end()
    return Generation(
        zone,
        number,
        layout,
        parameters,
        start_us,
        tuple(shards),
        created_us,
        inherits=inherits,
        end_us=end_us,
        last_serials=tuple(last_serials),
        edition=edition,
    )


def encode_parameters(parameters: dict[str, Parameter]) -> bytes:
    """As a part of a record."""
    parts = [u16(len(parameters))]
    for name in sorted(parameters):
        parts.append(text(name))
        parts.append(_encode_parameter(parameters[name]))
    return b"".join(parts)


def read_parameters(fields: RecordReader) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for _index in range(fields.u16("the parameters")):
        name = fields.text("a parameter")
        parameters[name] = _decode_parameter(fields, name)
    return parameters


def _encode_parameter(value: Parameter) -> bytes:
    if isinstance(value, int):
        return u8(_NUMBER) + i64(value)
    if isinstance(value, str):
        return u8(_TEXT) + text(value)
    return u8(_NUMBERS) + u16(len(value)) + b"".join([i64(number) for number in value])


def _decode_parameter(fields: RecordReader, name: str) -> Parameter:
    kind = fields.u8(f"parameter {name!r}")
    if kind == _NUMBER:
        return fields.i64(f"parameter {name!r}")
    if kind == _TEXT:
        return fields.text(f"parameter {name!r}")
    if kind == _NUMBERS:
        return tuple([fields.i64(f"parameter {name!r}") for _index in range(fields.u16(f"parameter {name!r}"))])
    raise PermanentError(f"parameter {name!r} of a generation is of kind {kind}; this Holdfast knows 1, 2 and 3")
