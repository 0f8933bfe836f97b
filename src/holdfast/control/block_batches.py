"""Many blocks in requests that a broker takes: each is a frame of bounded size."""

from collections.abc import Iterable, Iterator
from typing import Final

#: Of names in one request. A frame may have 64 KB, with the reason and what MessagePack adds.
BATCH_BYTES: Final = 32_768
_EACH_BYTES: Final = 20


def block_batches(targets: Iterable[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Kind and value of each block, in parts that fit into a request. A name that is too long is alone in its part."""
    batch: list[tuple[str, str]] = []
    size = 0
    for kind, value in targets:
        added = len(value.encode(errors="surrogatepass")) + _EACH_BYTES
        if batch and size + added > BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append((kind, value))
        size += added
    if batch:
        yield tuple(batch)
