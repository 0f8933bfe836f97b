"""`holdfast spark replay`: history from a log, a lake or both, into a broker, through many connections at a time.

Everything that can be wrong with the options is found before Spark is started, and whether the broker lets us in.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import os
import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.replay_options import Into, What
from holdfast.cli.spark_job import job
from holdfast.cli.spark_options import FAILED, Engine, Where
from holdfast.cli.words import iso_time, size_in_words
from holdfast.model.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipeline.options import Options
    from holdfast.pipeline.replay import Outcome
    from holdfast.pipeline.write_options import WriteOptions

#: The name of a folder, too.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_UNNAMED: Final = "what is published stays; with --name the next run could go on behind it"
_NAMED: Final = "what is published stays, and the next run under this --name goes on behind it"


@grouped
def replay(
    where: Where,
    engine: Engine,
    what: What,
    into: Into,
    lake: Annotated[
        Path | None, typer.Option("--lake", help="An archive: alone, or before what --data has.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="A name, under which a run that was ended can go on.", show_default=False)
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where that is noted.", show_default="~/.local/state/holdfast/replays"),
    ] = None,
    connections: Annotated[
        int | None,
        typer.Option(metavar="N", help="Connections to the broker.", min=1, max=1024, show_default="tasks of Spark"),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Messages that are sorted at once.", min=1)] = 5_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Publish stored messages again, into a broker: in their order, once, at any speed. It may be killed and go on."""
    prefix, speed = what.check()
    into.check()
    source = _source(where, lake)
    if name is not None and not _NAME.fullmatch(name):
        fail(
            f"--name {name!r}: use up to 64 letters, digits, '_' and '-', beginning with a letter or digit", WRONG_USAGE
        )
    if state is not None and name is None:
        fail("--state is where the notes of a --name are; give one", WRONG_USAGE)
    engine.check()
    to = into.options()
    read = _checked(source, lake)
    _knock(read, to, what)
    from holdfast.pipeline.replay import run_replay
    from holdfast.pipeline.replay_plan import ReplayJob

    with ExitStack() as held, job("replay", as_json=as_json, stopped=_UNNAMED if name is None else _NAMED) as run:
        if name is None:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-replay-")))
        else:
            folder = (state or _default_state()).absolute() / name
        work = ReplayJob(
            to,
            folder,
            source,
            None if lake is None else lake.absolute(),
            what.topic,
            what.since,
            what.until,
            prefix,
            speed,
            connections,
            batch,
        )

        def progress(share: float, done: int, planned: int) -> None:
            run.progress(share, f"{done:,} of {planned:,} messages")

        outcome = run_replay(work, engine.master, run.begin, progress)
        run.sum_up(*_summary(to.place, outcome, timed=speed is not None))


def _source(where: Where, lake: Path | None) -> dict[str, str]:
    """Options of the data source; none for the lake alone."""
    if lake is not None and where.data is None and where.endpoint is None:
        return {}
    if lake is None and where.data is None and where.endpoint is None:
        fail("say where from: --data, --endpoint grpc://HOST:PORT, or --lake, or one of them and a lake", WRONG_USAGE)
    return where.given()


def _checked(source: dict[str, str], lake: Path | None) -> "Options | None":
    """What is read beside the lake; wrong options end the program."""
    from holdfast.pipeline.opening import check_source
    from holdfast.pipeline.options import parse_options

    try:
        if lake is not None:
            from holdfast.pipeline.lake import Lake

            Lake.open(lake)
        if not source:
            return None
        read = parse_options(source)
        check_source(read)
    except HoldfastError as error:
        fail(str(error), WRONG_USAGE)
    return read


def _knock(read: "Options | None", to: "WriteOptions", what: What) -> None:
    """See whether the broker lets us in, and whether it is the one that is read."""
    from uuid import uuid4

    from holdfast.pipeline.broker_connection import connect
    from holdfast.pipeline.same_broker import is_same_broker

    try:
        connect(to, f"replay-knocks-{uuid4().hex[:16]}").close(goodbye=True)
        same = read is not None and what.no_prefix and not what.into_itself and is_same_broker(read, to)
    except HoldfastError as error:
        fail(f"--into {to.place}: {error}", FAILED)
    if same:
        fail(
            f"--into {to.place} is the broker whose history is replayed: without a prefix its subscribers would get "
            f"everything again, and its history would have it twice. Give --prefix, or --into-itself if that is meant",
            WRONG_USAGE,
        )


def _default_state() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "holdfast" / "replays"


def _summary(place: str, outcome: "Outcome", *, timed: bool) -> tuple[dict[str, object], str]:
    between = [iso_time(at_us) if outcome.messages else None for at_us in (outcome.first_us, outcome.last_us)]
    row: dict[str, object] = {
        "to": place,
        "messages": outcome.messages,
        "bytes": outcome.size_bytes,
        "from": between[0],
        "until": between[1],
        "connections": outcome.connections,
        "before": outcome.before,
        "sent": outcome.sent,
        "late_s": round(outcome.late_us / 1e6, 6) if timed else None,
    }
    parts = [f"{outcome.messages:,} messages, {size_in_words(outcome.size_bytes)}"]
    if outcome.messages:
        parts.append(f"from {between[0]} to {between[1]}")
    parts.append(f"{outcome.connections} connection{'' if outcome.connections == 1 else 's'}")
    if outcome.before:
        parts.append(f"{outcome.before:,} of them before this run")
    if timed:
        parts.append(f"at most {outcome.late_us / 1e6:.3f} s late")
    return row, f"{place}: {', '.join(parts)}"
