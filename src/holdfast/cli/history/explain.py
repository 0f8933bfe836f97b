"""`holdfast explain`: why a client has, does not have yet, or never gets a message; also while the broker runs.

Exit codes: 0 done, 1 no such session is stored, 2 wrong usage, or no data folder.
"""

import json
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.history.events import (
    Since,
    describe_client,
    format_event_time,
    parse_filter_or_fail,
    parse_since_or_fail,
    print_events,
)
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.storage.command import FolderOptions
from holdfast.model.errors import HoldfastError
from holdfast.records.events import Event
from holdfast.storage.event_files import read_events
from holdfast.topics.subscription import SubscriptionRecord

if TYPE_CHECKING:
    from holdfast.history.explanation import Explanation, MessageFate
    from holdfast.history.tables.session_view import SessionView

#: The most events of the client that are shown below its messages.
_EVENTS: Final = 20
_NEVER_S: Final = 0xFFFFFFFF
_ONE_NODE: Final = (
    "this is a node of a cluster: events are those of this node alone, and what another node dropped is 'acknowledged' "
    "or 'owed' here; ask each node that has served the client"
)


@grouped
def explain(
    client: Annotated[str, typer.Option(help="The client id.")],
    topic: Annotated[str, typer.Option(metavar="FILTER", help="A topic, or a filter, as the log has it.")],
    options: FolderOptions,
    since: Since = "-1h",
    limit: Annotated[int, typer.Option(help="The newest so many messages.", min=1, max=100_000)] = 100,
    mount_point: Annotated[
        str, typer.Option(help="That of the client's listener, if it has one.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> None:
    """Say of each message what became of it for a client: acknowledged, in flight, owed, dropped, or not for it.

    The broker may be running; what it did within the last second may be missing.
    """
    topic_filter = parse_filter_or_fail(topic)
    since_us = parse_since_or_fail(since)
    session_id = f"{mount_point}\0{client}" if mount_point else client
    # Imported here: printing the help needs no database.
    from holdfast.history.explanation import explain as explain_messages
    from holdfast.history.explanation_json import explanation_fields, of_node
    from holdfast.history.reader.reader import HistoryReader
    from holdfast.history.tables.session_view import read_session

    with exit_on(HoldfastError):
        folder = options.folder()
        with HistoryReader.open(folder) as reader:
            of_cluster = reader.is_of_cluster
            session = read_session(reader, session_id)
            # After the reader was opened, so that events of all that it shows are stored.
            events = read_events(folder)
            about = [event for event in events if event.time_us >= since_us and event.is_about(client)]
            if session is None:
                _no_session(client, about, as_json=as_json, of_cluster=of_cluster)
                return
            answer = explain_messages(
                reader, session, topic_filter, since_us, limit, events, now_us=time.time_ns() // 1000
            )
    if as_json:
        plain = explanation_fields(client, session, answer, about) | of_node(of_cluster=of_cluster)
        typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        _print(client, session, answer, about)
        if of_cluster:
            typer.echo(_ONE_NODE)


def _no_session(client: str, about: list[Event], *, as_json: bool, of_cluster: bool) -> None:
    from holdfast.history.explanation_json import no_session_fields, of_node

    if as_json:
        plain = no_session_fields(client, about) | of_node(of_cluster=of_cluster)
        typer.echo(json.dumps(plain, indent=2))
    elif about:
        print_events(about[-_EVENTS:])
    if of_cluster and not as_json:
        typer.echo(_ONE_NODE)
    fail(
        f"there is no stored session of client {client!r}: it never had one that outlives its connection, or it has "
        "ended" + (" (see the events)" if any(event.reason == "session_ended" for event in about) else ""),
        FAILED,
    )


# ---- as text


def _print(client: str, session: "SessionView", answer: "Explanation", about: list[Event]) -> None:
    typer.echo(f"client {client}: {_session_text(session)}")
    if answer.fates:
        _print_fates(answer.fates)
    hidden = answer.found - len(answer.fates)
    if hidden:
        typer.echo(f"{hidden} older messages are not shown; ask for more with --limit")
    elif not answer.found:
        typer.echo("the log has no message of this topic since then")
    if answer.lost_at_most:
        typer.echo(f"retention removed up to {answer.lost_at_most} messages (of all topics) of this time")
    if not answer.events_complete:
        typer.echo("in some seconds more was dropped than there are events: 'acknowledged' may be 'dropped' there")
    if about:
        typer.echo("\nevents about this client:")
        print_events(about[-_EVENTS:])


def _session_text(session: "SessionView") -> str:
    record = session.record
    state = "connected" if not record.disconnected_us else f"offline since {format_event_time(record.disconnected_us)}"
    if record.expiry_s != _NEVER_S:
        state += f", its session outlives the connection by {record.expiry_s} s"
    return f"{state}; {len(session.subscriptions)} subscriptions"


def _print_fates(fates: "list[MessageFate]") -> None:
    print_table(
        fates,
        TableColumn("received (UTC)", lambda fate: format_event_time(fate.message.received_us)),
        TableColumn("topic", lambda fate: fate.message.topic.decode(), least=22),
        TableColumn("publisher", lambda fate: describe_client(fate.message.publisher), least=16, dispensable=1),
        TableColumn("QoS", lambda fate: str(fate.message.qos)),
        TableColumn("stored (UTC)", lambda fate: format_event_time(fate.message.position_us), dispensable=3),
        TableColumn("shard/position", lambda fate: f"{fate.message.shard}/{fate.message.position_us}", dispensable=4),
        TableColumn(
            "matched by",
            lambda fate: ", ".join(_matched_text(record) for record in fate.matched) or "nothing",
            least=16,
            dispensable=2,
        ),
        TableColumn("state", lambda fate: fate.state.replace("_", " "), style="bold"),
        TableColumn("why", lambda fate: fate.why, least=14),
    )


def _matched_text(record: SubscriptionRecord) -> str:
    return f"{record.filter.raw.decode()} (QoS {record.qos}, since {format_event_time(record.began_us())})"
