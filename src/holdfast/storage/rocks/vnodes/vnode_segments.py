"""Segments of the parts of a node in a cluster: made by each node for itself, behind the appliers.

A segment has the messages that its commit pages had, at the same places (`log/segment_writer.py`). It changes no row of
a vnode and nothing that is read, so no other node has to know of it, and no digest covers it.

1. Batches of segments stand between those of records, in any order. One that cannot be written now is kept, and nothing
   further is made before it is written.
2. A batch of a generation that was dropped meanwhile is forgotten.
3. A commit page that is damaged stays where it is, and its readers are told. The row of its generation does not note
   what was lost, as that of a node without a cluster does: rows are those of all nodes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.durable.changes import Changes
from holdfast.model.errors import TransientError
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SEGMENT_SIZE, SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.log.zone_generations import ZoneGenerations
from holdfast.storage.rocks.vnodes.vnode_log import VnodeLog


class VnodeSegments:
    """The parts of a node as they become segments. A `WrittenLog` by shape."""

    def __init__(self, engine: Engine, log: VnodeLog, is_written: Callable[[], bool]) -> None:
        """`is_written` tells whether every vnode has written what its applier has given it."""
        self.engine: Final = engine
        self._log: Final = log
        self._is_written: Final = is_written
        self._unwritten: Final[deque[Changes]] = deque()

    def writer(self, size: SegmentSize = SEGMENT_SIZE) -> SegmentWriter:
        """What makes segments of the node's commit pages."""
        return SegmentWriter(self, size, sets_aside=False)

    @property
    def zone_logs(self) -> Mapping[str, ZoneGenerations]:
        return {f"{part.vnode}/{part.zone}": part for part in self._log.parts()}

    def idle(self) -> bool:
        return not self._unwritten and self._is_written()

    def write_own(self, changes: Changes) -> None:
        self._unwritten.append(changes)
        self.retry()

    def retry(self) -> None:
        """Write what could not be written. Call it now and then while it is not `idle`."""
        try:
            while self._unwritten:
                changes = self._unwritten[0]
                there = self.engine.families()
                if len(changes) and all(name in there for name, _family in changes.families()):
                    self.engine.write(self.engine.written + 1, changes)
                self._unwritten.popleft()
        except TransientError:
            self._log.revoke()
