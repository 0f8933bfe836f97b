"""`holdfast state` and `holdfast density`: what topics were at a moment, and how many messages there were over time.

What the time machine of the console shows, from the data folder itself. The broker may run meanwhile.

Exit codes: 0 done, 2 wrong usage, or no data folder.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Annotated, Any, Final

import typer

from holdfast.cli.commands import exit_on
from holdfast.cli.options.groups import Json, grouped
from holdfast.cli.output.table import TableColumn, print_table
from holdfast.cli.output.text import format_duration, format_time, printable
from holdfast.cli.storage.command import FolderOptions
from holdfast.model.errors import HoldfastError
from holdfast.model.time import SECOND_US

_TIMES: Final = "-1h (s, m, h, d, w), ISO 8601, or microseconds since 1970"
#: Characters of a payload that are shown.
_SHOWN: Final = 60
#: Characters of the longest bar.
_BAR: Final = 40

Filter = Annotated[str, typer.Argument(metavar="FILTER", help="Topic filter; + and # are wildcards.")]
Zone = Annotated[str | None, typer.Option(help="Of this zone only.")]
Params = dict[str, list[str]]


@grouped
def state(
    topic_filter: Filter,
    options: FolderOptions,
    at: Annotated[str | None, typer.Option(metavar="WHEN", help=f"The moment: {_TIMES}.", show_default="now")] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Say what came, fell silent and changed since this moment.")
    ] = None,
    look_back_s: Annotated[
        int | None, typer.Option(help="Seconds before the moment in which a topic has to have spoken.", min=1)
    ] = None,
    retained: Annotated[bool, typer.Option("--retained", help="Retained messages alone.")] = False,
    zone: Zone = None,
    as_json: Json = False,
) -> None:
    """Print the newest message of each topic at a moment, or what has changed since another one."""
    params = _params(filter=topic_filter, look_back_s=look_back_s, zone=zone)
    if compare is not None:
        found = _ask(options, "/compare", params | _params(a=compare, b=at or "latest"))
    else:
        found = _ask(options, "/state", params | _params(at=at, retained="1" if retained else None))
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif compare is not None:
        _print_comparison(found)
    else:
        _print_state(found)


@grouped
def density(
    options: FolderOptions,
    topic_filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="Topic filter; + and # are wildcards.")] = "#",
    since: Annotated[str, typer.Option("--since", metavar="WHEN", help=f"Begin: {_TIMES}, or earliest.")] = "-1h",
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="End, in the same forms.", show_default="now")
    ] = None,
    buckets: Annotated[int, typer.Option(help="Parts of the range.", min=1, max=600)] = 60,
    zone: Zone = None,
    as_json: Json = False,
) -> None:
    """Print how many messages of a filter there were in each part of a range; every number is exact."""
    params = _params(filter=topic_filter, to=until, buckets=buckets, zone=zone)
    found = _ask(options, "/density", params | {"from": [since]})
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print_density(found)


def _params(**given: object) -> Params:
    return {name: [str(value)] for name, value in given.items() if value is not None}


def _ask(options: FolderOptions, path: str, params: Mapping[str, list[str]]) -> dict[str, Any]:
    """What the history process would answer; of a stream the last line. The program ends if it is refused."""
    # Imported here: printing the help needs no database.
    from holdfast.history.past.endpoints import ANSWERS, STREAMS
    from holdfast.history.reader.reader_pool import ReaderPool

    endpoint = {**ANSWERS, **STREAMS}[path]
    found: Any = {}
    with exit_on(HoldfastError), closing(ReaderPool(options.existing_folder(), 1)) as pool:
        for line in endpoint(pool, params, lambda: False):
            found = line
    assert isinstance(found, dict)
    return found


# ---- as text


def _text(value: Mapping[str, Any]) -> str:
    """A topic or a payload."""
    text = str(value["text"] if "text" in value else f"base64 {value['base64']}")
    return printable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _print_state(found: Mapping[str, Any]) -> None:
    topics: list[dict[str, Any]] = found["topics"]
    if topics:
        print_table(
            topics,
            TableColumn("topic", lambda one: _text(one["topic"]), least=20),
            TableColumn("value", lambda one: _text(one["payload"]), least=10),
            TableColumn("age", lambda one: format_duration(one["age_us"] / SECOND_US), right=True),
            TableColumn("client", lambda one: printable(one["client"]), dispensable=1),
        )
    back = format_duration((found["at_us"] - found["looked_back_to_us"]) / SECOND_US)
    whole = "" if found["complete"] else "; there may be more (--look-back-s)"
    typer.echo(f"{len(topics)} topics at {format_time(found['at_us'])}, looked back {back}{whole}")


def _print_comparison(found: Mapping[str, Any]) -> None:
    rows = [
        *(("changed", one["topic"], one["a"]["payload"], one["b"]["payload"]) for one in found["changed"]),
        *(("came", one["topic"], None, one["payload"]) for one in found["came"]),
        *(("silent", one["topic"], one["payload"], None) for one in found["silent"]),
    ]
    if rows:
        print_table(
            rows,
            TableColumn("what", lambda row: row[0]),
            TableColumn("topic", lambda row: _text(row[1]), least=20),
            TableColumn("before", lambda row: "" if row[2] is None else _text(row[2]), least=10),
            TableColumn("then", lambda row: "" if row[3] is None else _text(row[3]), least=10),
        )
    counts = [f"{len(found[name])} {name}" for name in ("changed", "came", "silent")]
    whole = "" if found["complete"] else "; there may be more (--look-back-s)"
    typer.echo(f"{', '.join(counts)}, {found['same']} the same{whole}")


def _print_density(found: Mapping[str, Any]) -> None:
    counts: list[int] = found["counts"]
    most = max([*counts, 1])
    for number, count in enumerate(counts):
        begin_us = found["from_us"] + number * found["step_us"]
        typer.echo(f"{format_time(begin_us)[:19]}Z {count:>12,} {'█' * round(_BAR * count / most)}".rstrip())
    typer.echo(f"{found['total']:,} messages from {format_time(found['from_us'])} to {format_time(found['to_us'])}")
    if found["lost_at_most"]:
        typer.echo(f"retention removed up to {found['lost_at_most']:,} messages (of all topics) of this time")
    if found["erased_at_most"]:
        typer.echo(f"of them up to {found['erased_at_most']:,} are erased")
