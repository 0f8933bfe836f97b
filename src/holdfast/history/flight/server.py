"""History by Arrow Flight: actions list what can be read, tickets read messages and tables (`protocol.py`).

1. Every call needs a token, if tokens are configured; what an audit asks for needs one of an admin, because it tells
   where erased messages were.
2. Calls share nothing but the pool of readers, so a client may continue with a restarted server.
3. An error says what is wrong with a request, and whether a retry may help.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog
from pyarrow import flight  # type: ignore[import-untyped]

from holdfast.durable.log import NO_END
from holdfast.files.token_file import TokenEntry
from holdfast.history.arrow.message_batches import COLUMNS, schema_of
from holdfast.history.audit import queries
from holdfast.history.audit.queries import AuditQuery, audit_steps
from holdfast.history.audit.queue_states import queue_ranges
from holdfast.history.event_counts import count_events
from holdfast.history.flight import protocol
from holdfast.history.patterns import learned_patterns
from holdfast.history.reader.reader import ScanRequest
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.record_replay import SERIAL
from holdfast.history.reader.view import Part
from holdfast.history.tables import tables
from holdfast.history.tables.tables import TableQuery
from holdfast.history.tokens import Tokens
from holdfast.model.errors import HoldfastError, PermanentError, TransientError
from holdfast.model.roles import ADMIN, includes
from holdfast.model.time import MICROSECOND_NS
from holdfast.storage.rocks.log.leases import read_leases, remove_lease, renew_lease

_log = structlog.get_logger()

ACTIONS: Final = {
    "state": "heads, zones and generations",
    "parts": "the parts of a range of time",
    "lost": "what retention dropped of a range of positions",
    "first": "the first message of a part",
    "cuts": "where a part is best divided",
    "patterns": "what was learnt of topics, with the messages of each pattern",
    "learned": "the widest patterns that all generations have learnt",
    "events": "what was dropped, refused or ended from a time on, by reason",
    "ranges": "all sessions in ranges of keys, for an audit",
    "renew": "say how far a pipeline has come, so that retention waits for it",
    "release": "end a lease",
    "leases": "all leases",
}
_OFFSET: Final = "offset"
#: Under which name the token of a call is found.
_TOKEN: Final = "token"
#: Actions that only an audit needs.
_OF_AUDITS: Final = ("ranges",)


class _Caller(flight.ServerMiddleware):  # type: ignore[misc]
    """Whose token a call has shown."""

    def __init__(self, token: TokenEntry) -> None:
        super().__init__()
        self.token: Final = token


class _Doorkeeper(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Checks the token of each call."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens: Final = tokens

    def start_call(self, _info: Any, headers: dict[str, list[str]]) -> _Caller:
        shown = headers.get("authorization", [""])[0]
        token = self._tokens.entry_of(shown)
        if token is None:
            why = "the token is not known" if shown else "a token is needed"
            error = PermanentError(
                f"{why}; `holdfast token add` makes one, to be shown as: authorization: Bearer TOKEN"
            )
            raise flight.FlightUnauthenticatedError(str(error), extra_info=protocol.encode_error(error))
        return _Caller(token)


def _check_may_audit(context: Any) -> None:
    token = context.get_middleware(_TOKEN).token
    if not includes(token.role, ADMIN):
        error = PermanentError(
            f"the token {token.name!r} has the role {token.role}, and an audit needs {ADMIN}: it tells where erased "
            f"messages were; `holdfast token add NAME --role {ADMIN}` makes one"
        )
        raise flight.FlightUnauthorizedError(str(error), extra_info=protocol.encode_error(error))


class FlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves as soon as it is constructed."""

    def __init__(
        self,
        folder: Path,
        pool: ReaderPool,
        tokens: Tokens,
        host: str,
        port: int,
        tls: tuple[bytes, bytes] | None = None,
    ) -> None:
        """`tls` is a certificate chain and its key, PEM. OSError if the port is taken."""
        self._folder: Final = folder
        self._pool: Final = pool
        shown = f"[{host}]" if ":" in host else host
        super().__init__(
            f"grpc{'+tls' if tls else ''}://{'0.0.0.0' if host == '*' else shown}:{port}",
            tls_certificates=[tls] if tls else None,
            middleware={_TOKEN: _Doorkeeper(tokens)},
        )

    # ---- what can be read

    def list_actions(self, _context: Any) -> list[tuple[str, str]]:
        return list(ACTIONS.items())

    def do_action(self, context: Any, action: Any) -> list[Any]:
        with _translated():
            asked = protocol.decode_object(action.body.to_pybytes())
            if action.type not in ACTIONS:
                raise PermanentError(f"there is no action {action.type!r}; there are {', '.join(ACTIONS)}")
            if action.type in _OF_AUDITS:
                _check_may_audit(context)
            return [flight.Result(protocol.encode(getattr(self, f"_{action.type}")(asked)))]

    def _state(self, _asked: dict[str, Any]) -> Any:
        return protocol.encode_view(self._pool.view())

    def _parts(self, asked: dict[str, Any]) -> Any:
        zone = None if asked.get("zone") is None else protocol.text(asked, "zone")
        since_us, until_us = protocol.number(asked, "since_us", 0), protocol.number(asked, "until_us", NO_END)
        return [part._asdict() for part in self._pool.view().parts(since_us, until_us, zone)]

    def _lost(self, asked: dict[str, Any]) -> Any:
        shard = protocol.number(asked, "shard")
        from_us, before_us = protocol.number(asked, "from_us", 0), protocol.number(asked, "before_us", NO_END)
        lost = self._pool.view().lost(shard, from_us, before_us)
        return lost and {"from_us": lost.from_us, "to_us": lost.to_us, "at_most": lost.at_most}

    def _first(self, asked: dict[str, Any]) -> Any:
        first = self._pool.first(protocol.parse_part(asked))
        return first and first._asdict()

    def _cuts(self, asked: dict[str, Any]) -> Any:
        return [place._asdict() for place in self._pool.cuts(protocol.parse_part(asked))]

    def _patterns(self, _asked: dict[str, Any]) -> Any:
        return [{"pattern": found.text, "messages": found.messages} for found in self._pool.patterns()]

    def _learned(self, _asked: dict[str, Any]) -> Any:
        with self._pool.reading() as reader:
            return learned_patterns(reader)

    def _ranges(self, _asked: dict[str, Any]) -> Any:
        with self._pool.reading() as reader:
            return [(keys.lo.hex(), keys.hi.hex()) for keys in queue_ranges(reader)]

    def _events(self, asked: dict[str, Any]) -> Any:
        return [asdict(found) for found in count_events(self._folder, protocol.number(asked, "since_us", 0))]

    def _renew(self, asked: dict[str, Any]) -> Any:
        given = asked.get("positions")
        if not isinstance(given, dict) or not all(shard.isdecimal() for shard in given):
            raise PermanentError('a lease has "positions" by shard, such as {"0": 1700000000000000}')
        positions = {int(shard): protocol.number(given, shard) for shard in given}
        unknown = sorted(positions.keys() - self._pool.view().heads.keys())
        if unknown:
            raise PermanentError(f"there is no shard {unknown[0]}; a lease names shards that there are")
        lease = renew_lease(self._folder, protocol.text(asked, "lease"), positions, time.time_ns() // MICROSECOND_NS)
        return {"renewed_us": lease.renewed_us}

    def _release(self, asked: dict[str, Any]) -> Any:
        return {"released": remove_lease(self._folder, protocol.text(asked, "lease"))}

    def _leases(self, _asked: dict[str, Any]) -> Any:
        return [lease._asdict() for lease in read_leases(self._folder)]

    # ---- messages

    def get_flight_info(self, _context: Any, descriptor: Any) -> Any:
        """For clients that know Flight and nothing of Holdfast: an endpoint for each part.

        The command is that of `parts`, with `filter`, `columns` and `in_order` as in a ticket.
        """
        with _translated():
            if not descriptor.command:
                raise PermanentError('describe what to read as a command in JSON, such as {"filter": "plant/#"}')
            asked = protocol.decode_object(descriptor.command)
            levels = protocol.parse_levels(asked.get("filter") or "")
            columns = protocol.parse_columns(asked.get("columns", list(COLUMNS)))
            in_order = bool(asked.get("in_order", True))
            endpoints = [
                flight.FlightEndpoint(protocol.encode_request(ScanRequest(Part(**part), levels, columns, in_order)), [])
                for part in self._parts(asked)
            ]
            return flight.FlightInfo(schema_of(columns), descriptor, endpoints, -1, -1)

    def do_get(self, context: Any, ticket: Any) -> Any:
        with _translated():
            request = protocol.decode_ticket(ticket.ticket)
            if isinstance(request, TableQuery):
                return flight.GeneratorStream(
                    tables.schema_of(request.table, request.columns), self._table(context, request)
                )
            if isinstance(request, ScanRequest):
                return flight.GeneratorStream(schema_of(request.columns), self._stream(context, request))
            _check_may_audit(context)
            return flight.GeneratorStream(queries.schema_of(request), self._audit(context, request))

    # ---- what is not offered

    def list_flights(self, _context: Any, _criteria: Any) -> Any:
        self._refuse('there is no list of flights; get_flight_info takes a command in JSON: {"filter": "plant/#"}')

    def do_put(self, *_call: Any) -> None:
        self._refuse("history is read here, not written; publish by MQTT, or load files with: holdfast spark load")

    def do_exchange(self, *_call: Any) -> None:
        self._refuse("there is no exchange here; history is read by do_get")

    def _refuse(self, why: str) -> NoReturn:
        with _translated():
            raise PermanentError(why)
        raise AssertionError

    def _table(self, context: Any, query: TableQuery) -> Iterator[Any]:
        with _translated():
            yield from self._pool.scan_table(query, time.time_ns() // MICROSECOND_NS, context.is_cancelled)

    def _audit(self, context: Any, query: AuditQuery) -> Iterator[Any]:
        with _translated():
            yield from self._pool.read(lambda reader: audit_steps(reader, query), context.is_cancelled)

    def _stream(self, context: Any, request: ScanRequest) -> Iterator[Any]:
        own = [name for name in (_OFFSET, SERIAL) if request.in_order and name not in request.columns]
        with _translated():
            wanted = request._replace(columns=[*request.columns, *own])
            for batch in self._pool.scan(wanted, context.is_cancelled):
                if request.in_order:
                    last = protocol.PLACE.pack(batch.column(_OFFSET)[-1].as_py(), batch.column(SERIAL)[-1].as_py())
                    yield batch.select(list(request.columns)), last
                else:
                    yield batch


@contextmanager
def _translated() -> Iterator[None]:
    """Translate our errors to Flight's."""
    try:
        yield
    except TransientError as error:
        raise flight.FlightUnavailableError(str(error), extra_info=protocol.encode_error(error)) from error
    except HoldfastError as error:
        raise flight.FlightServerError(str(error), extra_info=protocol.encode_error(error)) from error
    except flight.FlightError:
        raise
    except Exception as error:
        _log.exception("a request failed")
        told = TransientError(f"the server failed, and its log says why: {type(error).__name__}")
        raise flight.FlightInternalError(str(told), extra_info=protocol.encode_error(told)) from error
