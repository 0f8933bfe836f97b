"""`holdfast events`: what a broker dropped, refused or ended, and why; also while it runs.

Exit codes: 0 done, 2 wrong usage, or no data folder.
"""

import json
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from holdfast.cli.commands import exit_on, fail
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.storage.command import FolderOptions
from holdfast.exchange.drops import REASONS
from holdfast.model.errors import HoldfastError
from holdfast.model.time import datetime_of
from holdfast.records.events import Event, event_fields
from holdfast.storage.event_files import read_events
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.since import parse_since

_REASONS_HELP: Final = f"This reason only: {', '.join(REASONS)}."

Since = Annotated[
    str, typer.Option("--since", metavar="WHEN", help="From when on: -2h (s, m, h, d, w), ISO 8601, or earliest.")
]


@grouped
def events(
    options: FolderOptions,
    reason: Annotated[str | None, typer.Option(help=_REASONS_HELP)] = None,
    client: Annotated[str | None, typer.Option(help="This client only, by its client id.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="FILTER", help="Topics that match this filter only.")] = None,
    since: Since = "-24h",
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Until when, in the same forms; not included.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The newest so many.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """List what was dropped, refused or ended, and why: the newest last. The broker may be running."""
    if reason is not None and reason not in REASONS:
        fail(f"there is no reason {reason!r}; there are: {', '.join(REASONS)}")
    topic_filter = None if topic is None else parse_filter_or_fail(topic)
    since_us = parse_since_or_fail(since)
    until_us = None if until is None else parse_since_or_fail(until, "--until")
    with exit_on(HoldfastError):
        folder = options.existing_folder()
    chosen = [
        event
        for event in read_events(folder)
        if event.time_us >= since_us
        and (until_us is None or event.time_us < until_us)
        and (reason is None or event.reason == reason)
        and (client is None or event.is_about(client))
        and (topic_filter is None or (event.topic and topic_filter.matches(event.topic.encode())))
    ]
    left_out = max(0, len(chosen) - limit)
    chosen = chosen[left_out:]
    if as_json:
        typer.echo(json.dumps([event_fields(event) for event in chosen], indent=2, ensure_ascii=False))
        return
    if not chosen:
        typer.echo("nothing was dropped, refused or ended, as far as the events reach")
        return
    print_events(chosen)
    if left_out:
        typer.echo(f"{left_out} older ones are not shown; ask for more with --limit")


def print_events(shown: Sequence[Event]) -> None:
    print_table(
        shown,
        TableColumn("time (UTC)", lambda event: format_event_time(event.time_us)),
        TableColumn("reason", lambda event: event.reason),
        TableColumn("client", lambda event: describe_client(event.client), least=16),
        TableColumn("topic", lambda event: event.topic, least=20),
        TableColumn("shard/position", describe_place, dispensable=1),
        TableColumn("count", lambda event: str(event.count) if event.count else "?", right=True),
        TableColumn("detail", lambda event: event.detail or REASONS.get(event.reason, ""), least=20, dispensable=2),
    )


def describe_place(event: Event) -> str:
    if not event.from_us:
        return ""
    more = "" if event.from_us == event.to_us else f"..{event.to_us}"
    return f"{event.shard}/{event.from_us}{more}"


def describe_client(session_id: str) -> str:
    """A session id as text: the client id, and its mount point if it has one."""
    mount_point, behind, client = session_id.partition("\0")
    return f"{client} (mount point {mount_point})" if behind else session_id


def format_event_time(time_us: int) -> str:
    moment = datetime_of(time_us)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def parse_filter_or_fail(text: str) -> TopicFilter:
    with exit_on(HoldfastError, named="--topic"):
        topic_filter = parse_filter(text.encode())
    if topic_filter.group or topic_filter.since:
        fail("--topic takes a plain filter such as plant/+/temp or plant/#, without $share and $replay")
    return topic_filter


def parse_since_or_fail(text: str, option: str = "--since") -> int:
    try:
        return parse_since(text).resolve(time.time_ns() // 1000)
    except HoldfastError:
        forms = "-2h (s, m, h, d, w), 2026-07-01T00:00:00Z, Unix time in microseconds, or earliest"
        fail(f"{option} {text!r} is no time; right would be {forms}")
