"""`holdfast spark replay`: history from a log, a lake or both, into a broker, through many connections at a time.

Everything that can be wrong with the options is found before Spark is started, and whether the broker lets us in.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import HistorySourceOptions, SparkMaster
from holdfast.cli.spark.replay_options import ReplayRunOptions, ReplaySelection, TargetBrokerOptions
from holdfast.model.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.pipeline.replay.job import ReplayOutcome
    from holdfast.pipeline.sink.write_options import WriteOptions
    from holdfast.pipeline.source.read_options import ReadOptions

_UNNAMED: Final = "what is published stays; with --name the next run could go on behind it"
_NAMED: Final = "what is published stays, and the next run under this --name goes on behind it"


@grouped
def replay(
    history: HistorySourceOptions,
    spark: SparkMaster,
    selection: ReplaySelection,
    broker: TargetBrokerOptions,
    run: ReplayRunOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on one line.")] = False,
) -> None:
    """Publish stored messages again, into a broker: in their order, once, at any speed. It may be killed and go on."""
    prefix, speed = selection.check()
    broker.check()
    source = _source(history, run.lake)
    run.check()
    spark.check()
    to = broker.options()
    _check_broker(to, _check_source(source, run.lake), selection)
    stopped = _UNNAMED if run.name is None else _NAMED
    with run.folder() as folder, job_output("replay", as_json=as_json, stopped=stopped) as job:
        from holdfast.pipeline.replay.job import run_replay
        from holdfast.pipeline.replay.plan import ReplayJob

        work = ReplayJob(
            to,
            folder,
            source,
            lake=None if run.lake is None else run.lake.absolute(),
            topic=selection.topic,
            since=selection.since,
            until=selection.until,
            prefix=prefix,
            speed=speed,
            connections=run.connections,
            round_messages=run.batch,
        )
        outcome = run_replay(work, spark.master, job.begin, job.progress)
        job.summarize(*_summary(to.place, outcome, timed=speed is not None))


def _source(history: HistorySourceOptions, lake: Path | None) -> dict[str, str]:
    """Options of the data source; none for the lake alone."""
    if history.data is None and history.endpoint is None:
        if lake is not None:
            return {}
        fail("say where from: --data, --endpoint grpc://HOST:PORT, or --lake, or one of them and a lake")
    return history.source_options()


def _check_source(source: dict[str, str], lake: Path | None) -> "ReadOptions | None":
    """The options of what is read besides the lake; wrong ones end the program."""
    from holdfast.pipeline.source.history_source import check_source
    from holdfast.pipeline.source.read_options import parse_read_options

    with exit_on(HoldfastError):
        if lake is not None:
            from holdfast.pipeline.lake.lake import Lake

            Lake.open(lake)
        if not source:
            return None
        read = parse_read_options(source)
        check_source(read)
    return read


def _check_broker(to: "WriteOptions", read: "ReadOptions | None", selection: ReplaySelection) -> None:
    """A broker that refuses us ends the program, and so does one that would get its own history again."""
    from holdfast.pipeline.replay.job import check_broker

    may_repeat = selection.no_prefix and not selection.into_itself
    with exit_on(HoldfastError, named=f"--into {to.place}", code=FAILED):
        is_same = check_broker(to, read if may_repeat else None)
    if is_same:
        fail(
            f"--into {to.place} is the broker whose history is replayed: without a prefix its subscribers would get "
            f"everything again, and its history would have it twice. Give --prefix, or --into-itself if that is meant"
        )


def _summary(place: str, outcome: "ReplayOutcome", *, timed: bool) -> tuple[dict[str, object], str]:
    between = [format_time(at_us) if outcome.messages else None for at_us in (outcome.first_us, outcome.last_us)]
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
    parts = [f"{outcome.messages:,} messages, {format_size(outcome.size_bytes)}"]
    if outcome.messages:
        parts.append(f"from {between[0]} to {between[1]}")
    parts.append(f"{outcome.connections} connection{'' if outcome.connections == 1 else 's'}")
    if outcome.before:
        parts.append(f"{outcome.before:,} of them before this run")
    if timed:
        parts.append(f"at most {outcome.late_us / 1e6:.3f} s late")
    return row, f"{place}: {', '.join(parts)}"
