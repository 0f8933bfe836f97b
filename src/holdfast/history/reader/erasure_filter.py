"""Removes erased messages from record batches."""

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.durable.erasures import Erasures

#: The columns that decide whether a message was erased.
ERASABLE: Final = ("offset", "topic", "client_id")
#: An erasure that covers nothing.
_NOTHING_US: Final = -1


def without_erased(batch: Any, shard: int, erasures: Erasures) -> Any:
    """The rows of a batch of one shard that were not erased. Requires: the columns ERASABLE."""
    hidden = erased_rows(batch, shard, erasures)
    return batch if hidden is None else batch.filter(pc.invert(hidden))


def erased_rows(batch: Any, shard: int, erasures: Erasures) -> Any | None:
    """Which rows were erased, as booleans; None if none was."""
    offsets = batch.column("offset")
    covered = [
        _covered(batch.column("client_id"), offsets, lambda client: _of_client(erasures, client, shard)),
        _covered(batch.column("topic"), offsets, lambda topic: _of_topic(erasures, topic, shard)),
    ]
    found = [rows for rows in covered if rows is not None]
    hidden = found[0] if len(found) == 1 else pc.or_(*found) if found else None
    return hidden if hidden is not None and pc.any(hidden).as_py() else None


def _covered(column: Any, offsets: Any, up_to: Any) -> Any | None:
    """Look up each distinct name once, because names repeat."""
    names = column.dictionary_encode()
    bounds = [up_to(name) for name in names.dictionary.to_pylist()]
    if all(bound == _NOTHING_US for bound in bounds):
        return None
    return pc.less_equal(offsets, pa.array(bounds, pa.int64()).take(names.indices))


def _of_client(erasures: Erasures, client: str, shard: int) -> int:
    erasure = erasures.of_client(client)
    return _NOTHING_US if erasure is None else erasure.up_to.get(shard, _NOTHING_US)


def _of_topic(erasures: Erasures, topic: str, shard: int) -> int:
    return max([_NOTHING_US, *[one.up_to.get(shard, _NOTHING_US) for one in erasures.of_topic(topic.encode())]])
