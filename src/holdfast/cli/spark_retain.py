"""`holdfast spark retain`: old days out of a lake, small files into large ones, and messages erased for good.

Everything that can be wrong with the options is found before Spark is started, and without importing it.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import getpass
import re
import socket
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.spark_job import job
from holdfast.cli.spark_options import Engine
from holdfast.cli.words import size_in_words
from holdfast.model.errors import PeerError
from holdfast.topics.filters import parse_filter

if TYPE_CHECKING:
    from holdfast.pipeline.archive import Runner
    from holdfast.pipeline.retain import Outcome, RetainJob

_STOPPED: Final = "what is committed stays; run it again to finish"
_AGE: Final = re.compile(r"(\d{1,5})([dw])")
_DAYS: Final = {"d": 1, "w": 7}


@grouped
def retain(
    engine: Engine,
    lake: Annotated[Path, typer.Option("--lake", help="The folder of the Delta table.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The broker's data folder; needed to erase: the log must hide it, too."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Drop days that are older: 90d, 12w.", show_default=False),
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Make large files of small ones.")] = False,
    erase_client: Annotated[
        str | None,
        typer.Option("--erase-client", metavar="ID", help="Erase what this client published.", show_default=False),
    ] = None,
    erase_topic: Annotated[
        str | None,
        typer.Option("--erase-topic", metavar="FILTER", help="Erase the messages of these topics.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Drop old days of a lake, compact it, or erase a client or topics, in the lake and in the broker's history."""
    days = _check(lake, data, older_than, erase_client, erase_topic, compact=compact)
    engine.check()
    from holdfast.pipeline.retain import RetainJob, first_day, run_retain

    work = RetainJob(
        lake.absolute(),
        None if data is None else data.absolute(),
        erase_client or "",
        erase_topic or "",
        None if days is None else first_day(days),
        compact,
        dry_run,
        f"{getpass.getuser()}@{socket.gethostname()}",
    )
    with job("retain", as_json=as_json, stopped=_STOPPED) as run:
        outcome = run_retain(work, lambda: _spark(engine.master), run.progress)
        run.sum_up(_row(work, outcome), _words(work, outcome))


def _check(
    lake: Path,
    data: Path | None,
    older_than: str | None,
    client: str | None,
    topic: str | None,
    *,
    compact: bool,
) -> int | None:
    """Days to keep, if old ones are to go; anything wrong ends the program."""
    if not (lake / "_delta_log").is_dir():
        fail(f"--lake {lake}: this is no lake: it holds no Delta table; holdfast spark archive makes one", WRONG_USAGE)
    if client is not None and topic is not None:
        fail("give either --erase-client or --erase-topic; one after the other", WRONG_USAGE)
    if client == "":
        fail("--erase-client '': name a client", WRONG_USAGE)
    if topic is not None:
        _check_topic(topic)
    if client is not None or topic is not None:
        if data is None:
            fail("to erase, name the broker's data folder too, with --data: it would come back otherwise", WRONG_USAGE)
        if not (data / "rocks" / "CURRENT").is_file():
            fail(f"--data {data}: this is no data folder of a broker: it has no database in it", WRONG_USAGE)
    elif older_than is None and not compact:
        fail("say what to do: --older-than 90d, --compact, --erase-client ID or --erase-topic FILTER", WRONG_USAGE)
    if older_than is None:
        return None
    found = _AGE.fullmatch(older_than)
    if not found or not int(found[1]):
        fail(f"--older-than {older_than!r}: give whole days or weeks, such as 90d or 12w", WRONG_USAGE)
    return int(found[1]) * _DAYS[found[2]]


def _check_topic(topic: str) -> None:
    try:
        parsed = parse_filter(topic.encode())
    except PeerError as error:
        fail(f"--erase-topic: {error.detail}", WRONG_USAGE)
    if parsed.group or parsed.since:
        fail(f"--erase-topic {topic}: write the filter alone, without $replay/ and $share/", WRONG_USAGE)


def _spark(master: str | None) -> "Runner":
    from holdfast.pipeline.archive import SparkRunner
    from holdfast.pipeline.spark_session import session

    return SparkRunner(session("holdfast-retain", master=master))


# ---- for people, and for machines


def _row(work: "RetainJob", outcome: "Outcome") -> dict[str, object]:
    row = asdict(outcome)
    hidden = {str(shard): position_us for shard, position_us in row.pop("hidden_up_to").items()}
    return {"lake": str(work.lake), "dry_run": work.dry_run, **row, "hidden_up_to": hidden}


def _words(work: "RetainJob", outcome: "Outcome") -> str:
    would = "would be " if work.dry_run else ""
    parts = []
    if work.erases:
        files = f"{outcome.rewritten} files written anew, {outcome.emptied} emptied"
        parts.append(f"{outcome.erased_rows:,} messages {would}erased ({files})")
        if outcome.hidden_up_to:
            parts.append("the log hides what it has of them")
    if work.keep_from is not None:
        days = outcome.expired_days
        between = f" ({days[0]} to {days[-1]})" if days else ""
        parts.append(f"{outcome.expired_rows:,} messages of {len(days)} days {would}dropped{between}")
    if work.compacts:
        parts.append(f"{outcome.compacted} small files {would}replaced")
    if outcome.removed:
        parts.append(f"{outcome.removed} old files removed")
    size = f"{size_in_words(outcome.size_before)} before, {size_in_words(outcome.size_bytes)} now"
    return f"{work.lake}: {', '.join(parts)}; {size}; version {outcome.version}"
