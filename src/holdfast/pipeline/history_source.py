"""Where history is read from: a contract with one form for each way to get there.

    path=       PathSource      a RocksDB secondary in each process that reads
    endpoint=   FlightSource    the history process beside the broker, by Arrow Flight

Readers know this contract and nothing else. Parts travel from the driver to the workers, and each opens a source of its
own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from holdfast.durable.log import Lost
from holdfast.history.reader import Part, ZoneView
from holdfast.pipeline.offsets import Offset, Offsets
from holdfast.topics.learned_show import Pattern


class HistorySource(Protocol):
    """What is durable, as of the last look.

    1. Nothing above the heads that `heads` gave last is shown; `parts` and `lost` are of that moment.
    2. A part of one source can be read by any other of the same options.
    """

    def heads(self) -> Offsets:
        """Look anew: the durable head of every shard."""
        ...

    def zones(self) -> list[ZoneView]: ...

    def parts(self, since_us: int, until_us: int, zone: str | None = None) -> list[Part]:
        """All that there is with since <= position < until, oldest first in each shard. SettingsError: no such zone."""
        ...

    def lost(self, shard: int, from_us: int, before_us: int) -> Lost | None:
        """What retention dropped of [from, before) in a shard."""
        ...

    def first(self, part: Part) -> Offset | None:
        """The first message of a part."""
        ...

    def batches(self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str]) -> Iterator[Any]:
        """The messages of a part that match, as pyarrow.RecordBatches, in any order. PermanentError: some are missing.

        DroppedError: retention was faster.
        """
        ...

    def patterns(self) -> list[Pattern]:
        """What the newest generation of every zone has learnt of topics, with the messages of each pattern."""
        ...

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        """Retention shall not pass what lies above these positions, by shard: everything up to them is done."""
        ...

    def close(self) -> None: ...
