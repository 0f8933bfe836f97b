"""Arrow Flight shows what a reader of the files shows, and says what is wrong with a request."""

import pickle
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import flight

from holdfast.durable.log import NO_END
from holdfast.files.token_file import add_token, remove_token
from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.audit.queries import AuditQuery, QueuesQuery, StoredQuery, TopicsQuery, audit_batches
from holdfast.history.audit.queue_states import queue_ranges
from holdfast.history.event_counts import ReasonCount
from holdfast.history.flight import protocol
from holdfast.history.flight.client import FlightHistory
from holdfast.history.flight.server import FlightServer
from holdfast.history.patterns import learned_patterns
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import UNKNOWN, DroppedError
from holdfast.history.tables.tables import KeyRange
from holdfast.history.tokens import Tokens
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.events import Event
from holdfast.storage.event_files import EventFiles
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.storage.rocks.log.leases import read_leases
from tests.unit.storage.rocks.log_node import Node


class Served:
    """A log, and a server beside it."""

    def __init__(self, folder: Path, tokens: Path | None = None) -> None:
        self.node = Node(folder / "data", ManualClock(wall_us=1_700_000_000_000_000))
        self.tokens = Tokens(tokens)
        self.pool = ReaderPool(folder / "data", 2, wait_s=0.0)
        self.server = FlightServer(folder / "data", self.pool, self.tokens, "127.0.0.1", 0)
        self.endpoint = f"grpc://127.0.0.1:{self.server.port}"

    def history(self, token: str | None = None) -> FlightHistory:
        return FlightHistory(self.endpoint, token, patience_s=0.0)

    def close(self) -> None:
        self.server.shutdown()
        self.pool.close()
        self.node.log.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.close()


@pytest.fixture
def history(served: Served) -> Iterator[FlightHistory]:
    served.node.fill()
    with served.history() as history:
        yield history


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightHistory]:
    """One for all tests that change nothing."""
    served = Served(tmp_path_factory.mktemp("still"))
    served.node.fill(2)
    with served.history() as history:
        yield history
    served.close()


def rows(reader: Any, levels: tuple[bytes, ...] = (), columns: tuple[str, ...] = COLUMNS, **options: Any) -> list[Any]:
    return [
        row
        for part in reader.parts()
        for batch in reader.batches(part, levels, columns, **options)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("levels", [(), (b"plant", b"+", b"temp"), (b"plant", b"7", b"#"), (b"nowhere",)])
def test_it_shows_what_the_files_show(served: Served, history: FlightHistory, levels: tuple[bytes, ...]) -> None:
    with HistoryReader.open(served.node.folder) as files:
        assert history.heads() == files.heads()
        assert history.zones() == files.zones()
        assert history.parts() == files.parts()
        assert rows(history, levels) == rows(files, levels)
        assert sorted(map(str, rows(history, levels, in_order=False))) == sorted(map(str, rows(files, levels)))


def test_columns_come_as_they_were_asked_for(history: FlightHistory) -> None:
    found = rows(history, (), ("payload", "topic"))
    assert len(found) == 600
    assert list(found[0]) == ["payload", "topic"]


def test_batches_have_as_many_rows_as_asked_for(history: FlightHistory) -> None:
    part = max(history.parts(), key=lambda part: part.last_serial)
    sizes = [batch.num_rows for batch in history.batches(part, (), ("topic",), rows=100)]
    assert max(sizes) == 100
    assert sum(sizes) == part.last_serial


def test_heads_that_were_shown_can_be_read_up_to(served: Served, history: FlightHistory) -> None:
    """L20: a reader that was used before is refreshed for them."""
    for _round in range(4):
        before = len(rows(history))
        served.node.fill(2)
        assert len(rows(history)) == before  # one moment, until refresh
        history.refresh()
        assert len(rows(history)) == before + 40


def test_generations_come_and_go_under_it(served: Served, history: FlightHistory) -> None:
    """L12"""
    old = history.parts()
    part = next(part for part in old if part.shard == 0)
    under_way = history.batches(part)
    next(under_way)
    served.node.clock.advance(3_600_000_000)
    served.node.maintenance.rotate(served.node.zone)
    served.node.fill(2)
    history.refresh()
    assert len(rows(history)) == 640
    served.node.maintenance.drop_oldest(served.node.zone)
    served.node.settle()
    history.refresh()
    assert len(rows(history)) == 40
    list(under_way)  # its files are held
    served.pool.maintain()
    # Readers that saw it may still serve it; one that is refreshed does not.
    list(history.batches(max(history.parts(), key=lambda part: part.generation)))
    lost = [history.lost(shard, 0, NO_END) for shard in history.heads()]
    assert sum(item.at_most for item in lost if item is not None) == 600
    with HistoryReader.open(served.node.folder) as files:
        assert repr(files.lost(0, 0, NO_END)) == repr(history.lost(0, 0, NO_END))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shard": 9}, "there is no shard 9; there are 0, 1"),
        ({"zone": "nowhere"}, "shard 0 is not of zone 'nowhere', but of 'default'"),
        ({"generation": 7}, "generation 7 of zone 'default' was dropped by retention before it was read"),
        ({"hi_us": 2**62}, r"shard 0 can be read up to \d+ now, and .* was asked for"),
        ({"lo_us": 2**62}, "is no range: its start must be below its end"),
    ],
)
def test_a_part_that_is_none_is_refused(still: FlightHistory, change: dict[str, Any], message: str) -> None:
    part = next(part for part in still.parts() if part.shard == 0)
    with pytest.raises(PermanentError, match=message):
        _ask(still, part._asdict() | change)


def _ask(history: FlightHistory, part: dict[str, Any], **asked: Any) -> None:
    ticket = flight.Ticket(protocol.encode({"part": part, **asked}))
    for _batch in history._read(ticket):
        pass


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"filter": "a/#/b"}, "'#' must be the whole last level"),
        ({"filter": "$replay/-2h/a"}, r"write the filter alone, without \$share and \$replay"),
        ({"filter": 5}, "the filter is 5; it must be a text"),
        ({"columns": ["topic", "colour"]}, "the column 'colour' does not exist; there are ts, "),
        ({"columns": ["topic", "topic"]}, "the column 'topic' stands twice"),
        ({"columns": []}, "columns are a list of names"),
        ({"part": None}, "a ticket names a part"),
        ({"part": {"zone": "default", "shard": "x"}}, "'shard' is 'x'; it must be a whole number"),
    ],
)
def test_a_ticket_that_is_wrong_says_how(still: FlightHistory, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(PermanentError, match=message):
        _ask(still, **{"part": still.parts()[0]._asdict(), **asked})


def test_an_action_that_is_none_is_refused(served: Served, history: FlightHistory) -> None:
    with pytest.raises(PermanentError, match="there is no action 'dance'; there are state, "):
        history._act("dance", {})
    with pytest.raises(PermanentError, match="there is no zone 'x'; there are default"):
        history._act("parts", {"zone": "x"})
    client = flight.FlightClient(served.endpoint)
    with pytest.raises(flight.FlightServerError, match="this is not JSON"):
        list(client.do_action(flight.Action("parts", b"{")))
    client.close()


def test_a_client_that_knows_only_flight_gets_everything(served: Served, history: FlightHistory) -> None:
    client = flight.FlightClient(served.endpoint)
    asked = flight.FlightDescriptor.for_command(b'{"filter": "plant/#", "columns": ["topic"]}')
    info = client.get_flight_info(asked)
    found = [name for one in info.endpoints for name in client.do_get(one.ticket).read_all()["topic"].to_pylist()]
    assert sorted(found) == sorted(row["topic"] for row in rows(history, (b"plant", b"#")))
    client.close()


def test_writing_is_refused_with_what_would_be_right(served: Served) -> None:
    client = flight.FlightClient(served.endpoint)
    schema = pa.schema([("topic", pa.string())])
    writer, _metadata = client.do_put(flight.FlightDescriptor.for_path("history"), schema)
    with pytest.raises(flight.FlightServerError, match="history is read here, not written; publish by MQTT") as refused:
        writer.close()
    assert "Traceback" not in str(refused.value)
    writer, _reader = client.do_exchange(flight.FlightDescriptor.for_path("history"))
    with pytest.raises(flight.FlightServerError, match="there is no exchange here"):
        writer.close()
    with pytest.raises(flight.FlightServerError, match="get_flight_info takes a command in JSON"):
        list(client.list_flights())
    client.close()


def test_a_pickled_client_reads_elsewhere(history: FlightHistory) -> None:
    history.heads()
    other = pickle.loads(pickle.dumps(history))
    assert rows(other) == rows(history)
    other.close()


def test_leases_by_way_of_the_server(served: Served, history: FlightHistory) -> None:
    done = {shard: head.position_us for shard, head in history.heads().items()}
    history.renew("lake", done)
    [lease] = read_leases(served.node.folder)
    assert (lease.name, lease.positions) == ("lake", done)
    assert [one["name"] for one in history._act("leases", {})] == ["lake"]
    for name, positions, message in [
        ("../lake", done, "is no name for a lease"),
        ("lake", {}, "a lease says for each shard"),
        ("lake", {77: 5}, "there is no shard 77"),
    ]:
        with pytest.raises(PermanentError, match=message):
            history.renew(name, positions)
    assert history.release("lake")
    assert not history.release("lake")


def test_without_the_token_there_is_nothing(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "spark")
    served = Served(tmp_path, tokens)
    served.node.fill(1)
    try:
        with served.history(token) as history:
            assert len(rows(history)) == 20
            part = history.parts()[0]
            for wrong in (None, "", "hft_wrong", token[:-1], token + "x"):
                with served.history(wrong) as other:
                    with pytest.raises(PermanentError, match="token"):
                        other.heads()
                    with pytest.raises(PermanentError, match="token"):
                        list(other.batches(part))
            remove_token(tokens, "spark")
            with pytest.raises(PermanentError, match="the token is not known"):
                history.refresh()
            tokens.unlink()
            with pytest.raises(PermanentError, match="the token is not known"):
                history.refresh()
        assert token not in repr(history)
    finally:
        served.close()


def test_only_an_admin_audits(tmp_path: Path) -> None:
    """What an audit gets tells where erased messages were."""
    tokens = tmp_path / "tokens"
    given = {role: add_token(tokens, role, role=role) for role in ("reader", "operator", "admin")}
    served = Served(tmp_path, tokens)
    try:
        served.node.fill(1)
        with served.history(given["reader"]) as history:
            [part, *_others] = history.parts()
        asked: list[AuditQuery] = [
            StoredQuery(part, checksums=True),
            TopicsQuery(part, ("status",)),
            QueuesQuery(KeyRange(b"\x03", b"\x04"), 1),
        ]
        for role in ("reader", "operator"):
            with served.history(given[role]) as history:
                wanted = f"the token '{role}' has the role {role}, and an audit needs admin"
                for query in asked:
                    with pytest.raises(PermanentError, match=wanted):
                        list(history.audit(query))
                with pytest.raises(PermanentError, match=wanted):
                    history.session_ranges()
        with served.history(given["admin"]) as history:
            up_to = {shard: head.position_us for shard, head in history.heads().items()}
            erase(served.node.folder, topic="#", up_to=up_to, now_us=1, made_by="test")
            found = [row for batch in history.audit(asked[0]) for row in batch.to_pylist()]
            assert {row["checksum"] for row in found if row["erased"]} == {None}
            assert history.session_ranges()
    finally:
        served.close()


@pytest.mark.parametrize("endpoint", ["", "localhost:1", "http://localhost:1", "grpc://localhost", "grpc://:5"])
def test_an_address_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(PermanentError, match="right would be grpc://HOST:PORT"):
        FlightHistory(endpoint)


def test_a_server_that_is_not_there_is_named() -> None:
    with (
        FlightHistory("grpc://127.0.0.1:1", patience_s=0.0) as history,
        pytest.raises(TransientError, match=r"grpc://127\.0\.0\.1:1 cannot be reached"),
    ):
        history.heads()


def test_patterns_are_those_that_the_files_tell(served: Served, history: FlightHistory) -> None:
    served.node.fill(commits=3)
    with HistoryReader.open(served.node.folder) as files:
        right = [(found.text, found.messages) for found in files.patterns()]
    assert [(found.text, found.messages) for found in history.patterns()] == right
    assert sum(messages for _text, messages in right) > 0


def test_learned_patterns_and_events_are_those_that_the_files_tell(served: Served, history: FlightHistory) -> None:
    served.node.fill(commits=3)
    happened = [Event(at_us, "expired", "press-7", "plant/1/temp", count=at_us) for at_us in (10, 20, 30)]
    EventFiles(served.node.folder).write([*happened, Event(25, "too large", "", "")])

    with HistoryReader.open(served.node.folder) as files:
        assert history.learned_patterns() == learned_patterns(files)
    assert history.count_events(20) == [
        ReasonCount("expired", 50, 30, (("press-7", 50),)),
        ReasonCount("too large", 1, 25, ()),
    ]
    assert history.count_events()[0].count == 60


def test_an_audit_gets_the_answers_that_the_files_give(served: Served, history: FlightHistory) -> None:
    served.node.fill(commits=3)
    with HistoryReader.open(served.node.folder) as files:
        assert history.session_ranges() == queue_ranges(files)
        parts = history.parts()
        asked: list[AuditQuery] = [StoredQuery(part, checksums=part.shard == 0) for part in parts]
        topics = sorted({row["topic"] for row in rows(history, columns=("topic",))})
        asked += [TopicsQuery(part, (*topics, "no/such/topic")) for part in parts]
        asked += [QueuesQuery(keys, 1) for keys in queue_ranges(files)]
        for query in asked:
            right = [row for batch in audit_batches(files, query) for row in batch.to_pylist()]
            assert [row for batch in history.audit(query) for row in batch.to_pylist()] == right
    counted = [batch.to_pylist() for query in asked if isinstance(query, TopicsQuery) for batch in history.audit(query)]
    assert sum(row["found"] for found in counted for row in found) == len(rows(history, columns=("topic",)))
    assert all(found[-1] == {"found": 0, "found_serials": 0} for found in counted)


@pytest.mark.parametrize(
    ("ticket", "told"),
    [
        ({"audit": "everything"}, "an audit asks for stored, queues or topics"),
        ({"audit": "stored"}, "a ticket names a part"),
        ({"audit": "queues", "lo": "no", "hi": "01", "now_us": 1}, "keys in hexadecimal"),
        ({"audit": "topics", "topics": [1]}, "topics are a list of names"),
    ],
)
def test_a_wrong_query_of_an_audit_is_refused(still: FlightHistory, ticket: dict[str, Any], told: str) -> None:
    with pytest.raises(PermanentError, match=told):
        list(still._answers(protocol.encode(ticket), same_again=True))


def test_the_first_message_of_a_part(served: Served, history: FlightHistory) -> None:
    with HistoryReader.open(served.node.folder) as files:
        for part in history.parts():
            first = next(iter(history.batches(part, rows=1))).to_pylist()[0]
            assert history.first(part) == files.first(part) == (first["offset"], first["serial"])
            assert history.first(part._replace(hi_us=part.lo_us + 1)) == files.first(
                part._replace(hi_us=part.lo_us + 1)
            )


def test_a_generation_that_is_gone_is_told_as_such(still: FlightHistory) -> None:
    gone = still.parts()[0]._replace(generation=7)

    for read in (lambda: still.first(gone), lambda: list(still.batches(gone))):
        with pytest.raises(DroppedError, match="generation 7 of zone 'default' was dropped by retention"):
            read()


class Lossy(FlightHistory):
    """Loses its server after the second batch, again and again."""

    def _read(self, ticket: Any) -> Iterator[tuple[Any, Any]]:
        for number, found in enumerate(super()._read(ticket)):
            if number == 2 and self.losses:
                self.losses -= 1
                raise TransientError("lost")
            yield found

    losses = 3


@pytest.mark.parametrize("levels", [(), (b"plant", b"#")])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_read_whose_server_was_lost_gives_each_message_once(
    served: Served, history: FlightHistory, levels: tuple[bytes, ...], in_order: bool
) -> None:
    with Lossy(served.endpoint) as lossy:
        found = rows(lossy, levels, ("topic", "payload"), in_order=in_order, rows=30)

        assert lossy.losses == 0
        right = rows(history, levels, ("topic", "payload"))
        assert found == right if in_order else sorted(map(str, found)) == sorted(map(str, right))
        assert list(found[0]) == ["topic", "payload"]


def test_a_read_that_is_not_in_order_and_knows_no_serials_is_given_up(served: Served, history: FlightHistory) -> None:
    part = history.parts()[0]._replace(after_serial=UNKNOWN)

    with Lossy(served.endpoint) as lossy, pytest.raises(TransientError, match="lost"):
        list(lossy.batches(part, rows=30, in_order=False))


def test_connections_that_ask_for_nothing_keep_nobody_out(served: Served) -> None:
    served.node.fill(1)
    address = ("127.0.0.1", served.server.port)
    with ExitStack() as held, served.history() as history:
        for begun in (b"", b"PRI * HTTP/2.0\r\n") * 100:
            held.enter_context(socket.create_connection(address)).sendall(begun)
        assert len(rows(history)) == 20
