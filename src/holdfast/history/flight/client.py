"""History of another machine: the interface of `HistoryReader`, by Arrow Flight.

    with FlightHistory("grpc://127.0.0.1:18815", token) as history:
        for part in history.parts():
            for batch in history.batches(part, (b"plant", b"#"), ("ts", "topic", "payload")):
                ...

1. It shows one state until `refresh`; any other client can read its parts, too.
2. It waits up to `patience_s` for a server that is away, from the moment at which it is missed. A read in order
   continues behind the last batch. A read not in order begins again and skips what was passed on, which needs the
   serials of its part; without them it raises TransientError once something was passed on. What an audit asks of a part
   comes in one order, and continues behind the last row. Tables and queues change: they raise as well.
3. A server whose readers are all in use is not away. It is asked again until one is free, unless there is no patience.
4. It can be pickled, with the address of the server. Connections are made where they are used.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pyarrow import ArrowException, flight  # type: ignore[import-untyped]

from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.audit.queries import AuditQuery, QueuesQuery, query_fields
from holdfast.history.event_counts import ReasonCount
from holdfast.history.flight import protocol
from holdfast.history.reader.reader import BATCH_ROWS, ScanRequest
from holdfast.history.reader.record_replay import SERIAL
from holdfast.history.reader.seen_serials import SeenSerials
from holdfast.history.reader.view import BusyError, Part, View, ViewReader
from holdfast.history.tables.tables import KeyRange, TableQuery
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError, TransientError
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.topics.learned import LearnedPattern

PATIENCE_S: Final = 60.0
#: Seconds that a call may take that reads no messages.
_CALL_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_SCHEMES: Final = {"grpc": "grpc+tcp", "grpc+tcp": "grpc+tcp", "grpcs": "grpc+tls", "grpc+tls": "grpc+tls"}
_AWAY: Final = (
    flight.FlightUnavailableError,
    flight.FlightTimedOutError,
    flight.FlightCancelledError,
    flight.FlightInternalError,
)
#: How gRPC's error text names a certificate that is not trusted.
UNTRUSTED: Final = "certificate verify failed"
_OPTIONS: Final = [
    # Reconnect to a restarted server within a second, instead of gRPC's growing pauses.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class FlightHistory(ViewReader):
    """Requires: one thread at a time."""

    def __init__(
        self, endpoint: str, token: str | None = None, ca: bytes | None = None, *, patience_s: float = PATIENCE_S
    ) -> None:
        """`endpoint` is grpc://HOST:PORT, or grpcs://HOST:PORT with TLS; `ca` are the authorities to trust, PEM."""
        self.endpoint: Final = endpoint
        self._token: Final = token
        self._ca: Final = ca
        self._patience_s: Final = patience_s
        self._location: Final = _location(endpoint)
        self._client: Any = None
        self._view: View | None = None
        self._closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(FlightHistory, patience_s=self._patience_s), (self.endpoint, self._token, self._ca)

    def __repr__(self) -> str:
        return f"FlightHistory({self.endpoint!r})"

    def close(self) -> None:
        self._closed = True
        self._let_go()

    def refresh(self) -> None:
        """See everything that was durable when this was called."""
        self._view = protocol.decode_view(self._act("state", {}))

    def view(self) -> View:
        if self._view is None:
            self.refresh()
        assert self._view is not None
        return self._view

    def first(self, part: Part) -> Head | None:
        """Position and serial of the first message of a part. DroppedError if retention has removed it."""
        found = self._act("first", {"part": part._asdict()})
        return found and Head(found["position_us"], found["serial"])

    def cuts(self, part: Part) -> list[Head]:
        """As `HistoryReader.cuts`."""
        return [Head(found["position_us"], found["serial"]) for found in self._act("cuts", {"part": part._asdict()})]

    def patterns(self) -> list[LearnedPattern]:
        """What the newest generation of every zone has learnt of topics, with the messages of each pattern."""
        return [LearnedPattern(found["pattern"], found["messages"]) for found in self._act("patterns", {})]

    def learned_patterns(self) -> list[str]:
        """As `history.patterns.learned_patterns`."""
        return list(self._act("learned", {}))

    def count_events(self, since_us: int = 0) -> list[ReasonCount]:
        """As `history.event_counts.count_events`."""
        return [
            ReasonCount(one["reason"], one["count"], one["last_us"], tuple((name, n) for name, n in one["clients"]))
            for one in self._act("events", {"since_us": since_us})
        ]

    def batches(
        self,
        part: Part,
        levels: tuple[bytes, ...] = (),
        columns: Sequence[str] = COLUMNS,
        *,
        rows: int = BATCH_ROWS,
        in_order: bool = True,
    ) -> Iterator[Any]:
        """The messages of a part that match a filter, as pyarrow.RecordBatches; all, if there are no levels.

        `rows` is how many a batch has at most, and no more than the server allows.
        """
        rest = part
        seen = None if in_order or not SeenSerials.can_follow(part) else SeenSerials(part)
        asked = (*columns, SERIAL) if seen is not None and SERIAL not in columns else tuple(columns)
        passed = False
        waiting = _Patience(self._patience_s)
        while rest.lo_us < rest.hi_us:
            ticket = flight.Ticket(protocol.encode_request(ScanRequest(rest, levels, asked, in_order, rows)))
            try:
                for found, place in self._read(ticket):
                    batch = found if seen is None else seen.news(found)
                    if in_order:
                        last_us, serial = protocol.PLACE.unpack(place)
                        # The rest can be checked by serials only if it is read without a filter.
                        rest = rest._replace(lo_us=last_us + 1, after_serial=rest.after_serial if levels else serial)
                    if batch.num_rows:
                        passed = True
                        waiting = _Patience(self._patience_s)
                        yield batch if asked == tuple(columns) else batch.select(list(columns))
                return
            except TransientError as error:
                self._let_go()
                if (passed and not in_order and seen is None) or not waiting.wait(error):
                    raise

    def table(self, query: TableQuery) -> Iterator[Any]:
        """All of a table, as of now. TransientError if the server was lost after something was passed on."""
        return self._answers(protocol.encode_table_request(query), same_again=False)

    def audit(self, query: AuditQuery) -> Iterator[Any]:
        """The answer to a query of an audit. The same holds for one about queues; others go on behind the last row."""
        return self._answers(protocol.encode(query_fields(query)), same_again=not isinstance(query, QueuesQuery))

    def session_ranges(self) -> list[KeyRange]:
        """As `history.audit.queue_states.queue_ranges`."""
        return [KeyRange(bytes.fromhex(lo), bytes.fromhex(hi)) for lo, hi in self._act("ranges", {})]

    def _answers(self, ticket: bytes, *, same_again: bool) -> Iterator[Any]:
        """`same_again`: another read gives the same rows in the same order."""
        passed = 0
        waiting = _Patience(self._patience_s)
        while True:
            known = passed
            try:
                for batch, _place in self._read(flight.Ticket(ticket)):
                    news = batch.slice(known)
                    known -= batch.num_rows - news.num_rows
                    if news.num_rows:
                        passed += news.num_rows
                        waiting = _Patience(self._patience_s)
                        yield news
                return
            except TransientError as error:
                self._let_go()
                if (passed and not same_again) or not waiting.wait(error):
                    raise

    def _read(self, ticket: Any) -> Iterator[tuple[Any, Any]]:
        """Batches with the place behind each."""
        with _translated(self.endpoint):
            stream = self._connected().do_get(ticket, self._options(None))
            try:
                for chunk in stream:
                    yield chunk.data, chunk.app_metadata
            except GeneratorExit:
                stream.cancel()  # or the server would send until its buffer is full
                raise

    # ---- leases

    def renew(self, lease: str, positions: Mapping[int, int]) -> None:
        """Renew a lease: retention keeps what lies above these positions, by shard."""
        self._act("renew", {"lease": lease, "positions": {str(shard): done for shard, done in positions.items()}})

    def release(self, lease: str) -> bool:
        """Whether there was such a lease."""
        return bool(self._act("release", {"lease": lease})["released"])

    # ---- within

    def _act(self, kind: str, asked: object) -> Any:
        waiting = _Patience(self._patience_s)
        while True:
            try:
                with _translated(self.endpoint):
                    action = flight.Action(kind, protocol.encode(asked))
                    [result] = self._connected().do_action(action, self._options(_CALL_S))
                    return json.loads(result.body.to_pybytes())
            except TransientError as error:
                self._let_go()
                if not waiting.wait(error):
                    raise

    def _connected(self) -> Any:
        if self._closed:
            raise MisuseError("this reader of history is closed")
        if self._client is None:
            self._client = flight.FlightClient(self._location, tls_root_certs=self._ca, generic_options=_OPTIONS)
        return self._client

    def _options(self, timeout_s: float | None) -> Any:
        headers = [] if self._token is None else [(b"authorization", b"Bearer " + self._token.encode())]
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)

    def _let_go(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _Patience:
    """Growing pauses, up to a total time from the first of them on."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s: Final = patience_s
        self._deadline_s: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def wait(self, error: TransientError) -> bool:
        """Wait for the next pause; False at once if the total time is over, which a busy server begins anew."""
        now_s = time.monotonic()
        if self._deadline_s is None or isinstance(error, BusyError):
            self._deadline_s = now_s + self._patience_s
        left_s = self._deadline_s - now_s
        if left_s <= 0:
            return False
        time.sleep(min(left_s, self._pause_s))
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        return True


def _location(endpoint: str) -> str:
    scheme, found, rest = endpoint.partition("://")
    host, colon, port = rest.rpartition(":")
    if not found or scheme not in _SCHEMES or not colon or not host or not port.isdecimal():
        raise PermanentError(
            f"{endpoint!r} is no address of a history; right would be grpc://HOST:PORT, or grpcs://HOST:PORT with TLS"
        )
    return f"{_SCHEMES[scheme]}://{rest}"


@contextmanager
def _translated(endpoint: str) -> Iterator[None]:
    """Translate errors of Flight: those that the server sent, and those of the connection."""
    try:
        yield
    except flight.FlightError as error:
        told: HoldfastError | None = protocol.decode_error(error.extra_info or b"")
        if told is not None:
            raise told from error
        if UNTRUSTED in str(error):
            raise PermanentError(
                f"{endpoint} shows a certificate that is not trusted; name the authority that signed it, a PEM file"
            ) from error
        if isinstance(error, _AWAY):
            raise TransientError(f"{endpoint} cannot be reached, or was lost: {_first_line(error)}") from error
        raise PermanentError(f"{endpoint} refuses: {_first_line(error)}") from error
    except (ArrowException, OSError) as error:
        raise TransientError(f"{endpoint} cannot be reached, or was lost: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
