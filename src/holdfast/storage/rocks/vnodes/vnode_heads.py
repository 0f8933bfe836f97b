"""The durable heads of a node in a cluster, for processes that read its log beside it (`log/published_heads.py`).

    apply ──▶ head of the shard ──▶ noted before a sync ──▶ synced ──▶ published

1. A head is published when a sync that began after it was applied has ended. Syncs are a second apart, so are heads.
2. A head never goes back while the node runs. After an installation it may be lower than before, in a vnode in which
   the other node was behind this one: the same messages come again, at the same places.
3. A node that is behind has lower heads than others, and nothing else is different.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.model.errors import TransientError
from holdfast.storage.rocks.log.published_heads import Head, PublishedHeads
from holdfast.storage.rocks.vnodes.vnode_log import VnodeLog


class VnodeHeads:
    """Publishes the heads of all shards of a node."""

    def __init__(self, folder: Path, log: VnodeLog) -> None:
        """Requires: all that is written is synced, as it is when a database was opened."""
        self._log: Final = log
        self._published: Final = self._heads()
        self._file: Final = PublishedHeads(folder, self._published)

    def note(self) -> Callable[[], None]:
        """Note what is applied by now. Call the result when all that is written by now is synced."""
        heads = self._heads()
        return lambda: self._publish(heads)

    def published(self) -> dict[int, Head]:
        """The heads that a sync has covered, by shard."""
        return dict(self._published)

    def close(self) -> None:
        self._file.close()

    def _heads(self) -> dict[int, Head]:
        return {part.id: Head(part.head_us, part.head_serial) for part in self._log.parts()}

    def _publish(self, heads: dict[int, Head]) -> None:
        known = self._published
        moved = {shard: head for shard, head in heads.items() if shard in known and head > known[shard]}
        for shard, head in moved.items():
            self._file.publish(shard, head.position_us, head.serial)
        known.update(moved)
        new = {shard: head for shard, head in heads.items() if shard not in known}
        if new:
            try:
                self._file.add(new)
            except TransientError:
                # The disk is full: after the next sync it is tried again.
                return
            known.update(new)
