"""In a worker: messages as keys and values, by the layout of each slot, with a digest of the messages.

A digest is the number of a set of messages, and a sum that does not depend on their order.

slot, topic, position, value  ──▶  PairEmitter  ──▶  record batches of (slot, key, value)
                                                     and one row with slot -1 for each slot's digest
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure, Pair, ParallelLayoutWriter

#: The slot of rows that are digests, and no keys.
DIGEST_SLOT: Final = -1
PAIRS: Final = pa.schema([("slot", pa.int32()), ("key", pa.binary()), ("value", pa.binary())])
#: Rows and bytes of a batch, about.
_BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 16 << 20

_MASK: Final = 2**64 - 1


class Digest(NamedTuple):
    """Of stored messages, bytes by bytes: positions, serials and everything else."""

    messages: int = 0
    total: int = 0

    def plus(self, other: "Digest") -> "Digest":
        return Digest(self.messages + other.messages, (self.total + other.total) & _MASK)

    def __str__(self) -> str:
        return f"{self.messages}:{self.total:016x}"


def digest_of(values: Iterable[bytes]) -> Digest:
    messages = 0
    total = 0
    for value in values:
        messages += 1
        total += int.from_bytes(blake2b(value, digest_size=8).digest(), "little")
    return Digest(messages, total & _MASK)


def parse_digest(text: str) -> Digest:
    messages, total = text.split(":")
    return Digest(int(messages), int(total, 16))


def sum_digests(digests: Iterable[Digest]) -> Digest:
    found = Digest()
    for digest in digests:
        found = found.plus(digest)
    return found


class PairEmitter:
    """Requires: messages of a slot come in the order of their positions."""

    def __init__(self, structures: Mapping[int, LayoutStructure]) -> None:
        self._structures: Final = structures
        self._open: Final[dict[int, ParallelLayoutWriter]] = {}
        self._counts: Final[Counter[int]] = Counter()
        self._totals: Final[Counter[int]] = Counter()

    def put(self, slot: int, topic: bytes, position_us: int, value: bytes) -> None:
        out = self._open.get(slot)
        if out is None:
            out = self._open[slot] = ParallelLayoutWriter(self._structures[slot])
        out.put(topic, position_us, value)
        self._counts[slot] += 1
        self._totals[slot] += int.from_bytes(blake2b(value, digest_size=8).digest(), "little")

    def take(self) -> Iterator[Any]:
        """What can be given already."""
        for slot, out in self._open.items():
            yield from pair_record_batches(slot, iter(out.take()))

    def finish(self) -> Iterator[Any]:
        """The rest, and the digests."""
        for slot, out in self._open.items():
            for pairs in out.finish():
                yield from pair_record_batches(slot, iter(pairs))
            digest = Digest(self._counts[slot], self._totals[slot] & _MASK)
            yield from pair_record_batches(DIGEST_SLOT, iter([(str(slot).encode(), str(digest).encode())]))


def pair_record_batches(slot: int, pairs: Iterator[Pair]) -> Iterator[Any]:
    """Record batches of PAIRS."""
    rows = _BATCH_ROWS
    while chunk := list(islice(pairs, rows)):
        size_bytes = sum(len(key) + len(value) for key, value in chunk)
        if size_bytes > _BATCH_BYTES:
            rows = max(1, rows // 4)
        arrays = [
            pa.array([slot] * len(chunk), pa.int32()),
            pa.array([key for key, _value in chunk], pa.binary()),
            pa.array([value for _key, value in chunk], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=PAIRS)


def read_digest(key: bytes, value: bytes) -> tuple[int, Digest]:
    """A row of DIGEST_SLOT: the slot, and what of it one worker has laid out."""
    return int(key), parse_digest(value.decode())


def record_batch_of(rows: Sequence[tuple[object, ...]], schema: Any) -> Any:
    """Rows, or none, as one record batch."""
    columns = [[row[place] for row in rows] for place in range(len(schema))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
