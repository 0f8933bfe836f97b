"""What the two shells of the client share: the core, the state file, what was received, and when to connect again."""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.client.core import ClientCore, ClientOutput
from holdfast.client.errors import ConnectionEnded, Event, LostError, MessageRefused
from holdfast.client.options import ConnectionOptions
from holdfast.client.subscriptions import subscribe_refusal
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Suback, Subscription, Unsuback
from holdfast.wire.properties import Properties

if TYPE_CHECKING:
    from holdfast.client.state_file import ClientStateFile

_FIRST_PAUSE_S: Final = 0.1


class RetryPolicy:
    """Pauses that double, until there was no progress for `retry_for_s`; 0 gives up at once."""

    def __init__(self, retry_for_s: float, longest_pause_s: float) -> None:
        self._retry_for_s: Final = retry_for_s
        self._longest_pause_s: Final = longest_pause_s
        self._pause_s = 0.0
        self._lost_s = 0.0
        self._progress = -1

    def pause_s(self, error: LostError, now_s: float, progress: int) -> float:
        """How long to wait before the next attempt. LostError if there is none.

        `progress` is any number that grows while all is well.
        """
        if not self._retry_for_s:
            raise error
        if progress != self._progress:
            self._progress, self._lost_s, self._pause_s = progress, now_s, _FIRST_PAUSE_S
        elif now_s - self._lost_s > self._retry_for_s:
            raise LostError(f"gave up after {self._retry_for_s:g} s without progress: {error}") from error
        pause_s = min(self._pause_s, self._longest_pause_s)
        self._pause_s = 2 * pause_s
        return pause_s


class ClientShell:
    """A core with a place for its events. Sockets and waiting are for those who inherit."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._core = ClientCore(options)
        self._file: ClientStateFile | None = None
        self._retry: Final = RetryPolicy(options.retry_for_s, options.longest_pause_s)
        self._received: Final[deque[Publish]] = deque()
        self._answers: Final[dict[int, Suback | Unsuback]] = {}

    @property
    def connected(self) -> bool:
        return self._core.connected

    @property
    def session_present(self) -> bool:
        """Whether the broker knew the session at the last connection."""
        return self._core.connack is not None and self._core.connack.session_present

    @property
    def server_properties(self) -> Properties:
        """What the broker said of itself; nothing in MQTT 3."""
        return self._core.limits

    @property
    def unacknowledged(self) -> int:
        """Messages of QoS 1 and 2 that are published and not completed."""
        return self._core.unacknowledged

    @property
    def settled(self) -> int:
        """How many of the first messages are completed, without a gap. Those that the state file had count too."""
        return self._core.settled

    @property
    def source_offset(self) -> bytes | None:
        """What the caller last gave to `publish`; with a state file, also before a restart."""
        return self._core.state.source_offset

    @property
    def has_more(self) -> bool:
        """Whether `receive` returns at once."""
        return bool(self._received)

    def _open_state(self, path: Path) -> None:
        # Not above: most clients have no state file.
        from holdfast.client.state_file import open_state

        self._options, self._file = open_state(self._options, path)
        self._core = ClientCore(self._options, self._file.state)

    def _store(self, output: ClientOutput, snapshot: bytes) -> None:
        """Store the records of an output, or a snapshot with them. It is not to be sent before."""
        if self._file is not None:
            self._file.store(output.records, snapshot, sync=output.sync)

    def _take_snapshot(self, output: ClientOutput) -> bytes:
        """The whole state, if the file is to be compacted. Requires: nothing has happened since `output` was taken."""
        if self._file is None or not self._file.wants_snapshot(len(output.records)):
            return b""
        return self._core.state.snapshot()

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Publish):
                self._received.append(event)
            elif isinstance(event, Suback | Unsuback):
                self._answers[event.packet_id] = event
            elif isinstance(event, ConnectionEnded | MessageRefused):
                raise event.error

    def _take_suback(self, packet_id: int, subscriptions: Sequence[Subscription]) -> Suback:
        suback = self._answers.pop(packet_id)
        assert isinstance(suback, Suback)
        error = subscribe_refusal(subscriptions, suback)
        if error is not None:
            raise error
        return suback


def to_subscriptions(filters: str | Sequence[Subscription], qos: int) -> Sequence[Subscription]:
    """One filter, or several with their own options."""
    return [Subscription(parse_filter(filters.encode()), qos)] if isinstance(filters, str) else filters
