"""Where history is read from: a broker's data folder, or the history process beside a broker.

    option path        HistoryReader     a RocksDB secondary in each process that reads
    option endpoint    FlightHistory     the history process, by Arrow Flight

`open_endpoint` is the only function of the pipeline and of the commands that opens an endpoint, which an import
contract checks: tables, leases and checks show the same token and trust the same authorities. Each of the two readers
is imported when the options name it, since Spark imports this module in every worker.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.durable.log import LostRange
from holdfast.history.reader.view import Part, ZoneView
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.source.offsets import Offset, Offsets
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.topics.learned_patterns import LearnedPattern

if TYPE_CHECKING:
    from holdfast.history.flight.client import FlightHistory
    from holdfast.history.reader.reader import HistoryReader

#: Seconds that a check of the options waits for a server that is being started.
CHECK_PATIENCE_S: Final = 10.0


class HistorySource:
    """Durable history, as of the last call of `heads`. Requires: `close`, or use as a context manager.

    1. Nothing above the heads that `heads` returned last is shown; `parts` and `lost` are of that moment.
    2. A part of one source can be read by any other of the same options: the driver plans, workers read.
    """

    def __init__(self, reader: "HistoryReader | FlightHistory") -> None:
        self._reader: Final = reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def heads(self) -> Offsets:
        """Refresh the view; the durable head of every shard."""
        self._reader.refresh()
        return {shard: Offset(*head) for shard, head in self._reader.heads().items()}

    def zones(self) -> list[ZoneView]:
        return self._reader.zones()

    def parts(self, since_us: int, until_us: int, zone: str | None = None) -> list[Part]:
        """All parts with since <= position < until, oldest first in each shard. SettingsError: no such zone."""
        names = [view.name for view in self.zones()]
        if zone is not None and zone not in names:
            raise SettingsError(f"option zone: there is no zone {zone!r}; there are {', '.join(names)}")
        return self._reader.parts(since_us, until_us, zone)

    def lost(self, shard: int, from_us: int, before_us: int) -> LostRange | None:
        """What retention dropped of [from, before) in a shard."""
        return self._reader.lost(shard, from_us, before_us)

    def first(self, part: Part) -> Offset | None:
        """The first message of a part."""
        found = self._reader.first(part)
        return found and Offset(*found)

    def batches(self, part: Part, levels: tuple[bytes, ...], columns: Sequence[str]) -> Iterator[Any]:
        """The matching messages of a part as pyarrow.RecordBatches, in any order. PermanentError: some are missing.

        DroppedError: retention dropped them meanwhile.
        """
        return self._reader.batches(part, levels, columns, in_order=False)

    def patterns(self) -> list[LearnedPattern]:
        """The topic patterns of the newest generation of every zone, with the number of messages of each."""
        return self._reader.patterns()

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        """Keep retention from what lies above these positions, by shard: everything up to them is done."""
        self._reader.renew(lease, positions)

    def close(self) -> None:
        self._reader.close()


def open_source(options: ReadOptions) -> HistorySource:
    """The source that the options name. SettingsError: there is nothing to read at the path, or no such address.

    An endpoint is connected by its first request.
    """
    if options.endpoint:
        return HistorySource(open_endpoint(options))
    from holdfast.history.reader.reader import HistoryReader

    try:
        return HistorySource(HistoryReader.open(Path(options.path)))
    except PermanentError as wrong:
        raise SettingsError(f"option path: {wrong}") from wrong


def open_endpoint(options: ReadOptions, *, patience_s: float | None = None) -> "FlightHistory":
    """The history process that the options name, with their token and authorities. SettingsError: no such address."""
    from holdfast.history.flight.client import PATIENCE_S, FlightHistory

    patience_s = PATIENCE_S if patience_s is None else patience_s
    try:
        return FlightHistory(options.endpoint, options.token, options.ca, patience_s=patience_s)
    except PermanentError as wrong:
        raise SettingsError(f"option endpoint: {wrong}") from wrong


def check_source(options: ReadOptions) -> None:
    """SettingsError, after CHECK_PATIENCE_S at most, if the source cannot be read or has no such zone."""
    if not options.endpoint:
        with open_source(options) as source:
            source.parts(0, 0, options.zone)
        return
    with HistorySource(open_endpoint(options, patience_s=CHECK_PATIENCE_S)) as source:
        try:
            source.heads()
        except (PermanentError, TransientError) as wrong:
            raise SettingsError(f"option {_option_of(wrong.__cause__)}: {wrong}") from wrong
        source.parts(0, 0, options.zone)


def _option_of(error: BaseException | None) -> str:
    """The option that a refusal of an endpoint is about."""
    from pyarrow import flight  # type: ignore[import-untyped]

    from holdfast.history.flight.client import UNTRUSTED

    if isinstance(error, flight.FlightUnauthenticatedError):
        return "token"
    return "ca" if UNTRUSTED in str(error) else "endpoint"
