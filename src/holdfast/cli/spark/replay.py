"""`holdfast spark replay`: history from a log, a lake or both, into a broker, through many connections at a time.

Everything that can be wrong with the options is found before Spark is started, and whether the broker lets us in.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from holdfast.cli.commands import FAILED, exit_on, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.times import parse_speed_option, parse_time_span
from holdfast.cli.output.text import format_size, format_time
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import HistorySourceOptions, SparkMaster, check_filter, check_name, parse_lake
from holdfast.model.errors import HoldfastError, PeerError
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST

if TYPE_CHECKING:
    from holdfast.pipeline.replay.job import ReplayOutcome
    from holdfast.pipeline.sink.write_options import WriteOptions
    from holdfast.pipeline.source.read_options import ReadOptions

_UNNAMED: Final = "what is published stays; with --name the next run could go on behind it"
_NAMED: Final = "what is published stays, and the next run under this --name goes on behind it"
_PREFIX: Final = "replayed/"


@dataclass(frozen=True, kw_only=True)
class TargetBrokerOptions:
    """The broker that messages are published to, and as which user."""

    into: Annotated[
        str | None, typer.Option(metavar="URL", help="The broker: mqtt://HOST:PORT, or mqtts:// for TLS.")
    ] = None
    user: Annotated[str | None, typer.Option("-u", "--user", help="User name there.")] = None
    password_env: Annotated[str | None, typer.Option(metavar="VARIABLE", help="Its password's variable.")] = None
    password_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Its password's file.")] = None
    into_ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Authorities to trust there, PEM.")] = None
    into_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate.")] = None
    into_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None
    # As they were called before.
    to: Annotated[str | None, typer.Option(hidden=True)] = None
    to_ca: Annotated[Path | None, typer.Option(hidden=True)] = None
    to_cert: Annotated[Path | None, typer.Option(hidden=True)] = None
    to_key: Annotated[Path | None, typer.Option(hidden=True)] = None
    qos: Annotated[int, typer.Option("-q", "--qos", help="Quality of service of publishing.", min=1, max=2)] = 1
    retry_for: Annotated[
        int, typer.Option(metavar="SECONDS", help="How long a broker may be away before it fails.", min=0)
    ] = 60

    def check(self) -> None:
        """Wrong options end the program, without a connection."""
        if urlsplit(self._url()).scheme not in ("mqtt", "mqtts"):
            fail(f"--into {self._url()}: give mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS")
        if self.password_env is not None and self.password_env not in os.environ:
            fail(f"--password-env {self.password_env}: there is no such variable; export it")
        ca, cert, key = self._files()
        files = {"--password-file": self.password_file, "--into-ca": ca, "--into-cert": cert, "--into-key": key}
        for option, path in files.items():
            if path is not None and not path.is_file():
                fail(f"{option} {path}: there is no such file")

    def _url(self) -> str:
        url = self.into or self.to
        if url is None:
            fail("say which broker gets the messages: --into mqtt://HOST:PORT")
        return url

    def _files(self) -> tuple[Path | None, Path | None, Path | None]:
        return self.into_ca or self.to_ca, self.into_cert or self.to_cert, self.into_key or self.to_key

    def options(self) -> "WriteOptions":
        from holdfast.pipeline.sink.write_options import parse_write_options

        ca, cert, key = self._files()
        given = {
            "broker": self._url(),
            "user": self.user,
            "passwordEnv": self.password_env,
            "passwordFile": _absolute(self.password_file),
            "caFile": _absolute(ca),
            "certFile": _absolute(cert),
            "keyFile": _absolute(key),
            "qos": str(self.qos),
            "retryForS": str(self.retry_for),
        }
        try:
            return parse_write_options({name: text for name, text in given.items() if text is not None})
        except HoldfastError as error:
            fail(str(error).replace("option broker", f"--into {self._url()}"))


@dataclass(frozen=True, kw_only=True)
class ReplaySelection:
    """Which messages are replayed, and how."""

    topic: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Messages of this filter only.", show_default="all")
    ] = None
    since: Annotated[
        str, typer.Option("--since", "--from", metavar="T", help="earliest, ISO 8601, Unix microseconds, or -2h.")
    ] = "earliest"
    until: Annotated[str | None, typer.Option(metavar="T", help="The end, in the same form.", show_default="now")] = (
        None
    )
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix", "--to-prefix", metavar="PREFIX", help="Goes in front of every topic.", show_default=_PREFIX
        ),
    ] = None
    no_prefix: Annotated[bool, typer.Option("--no-prefix", help="Leave topics as they are.")] = False
    into_itself: Annotated[
        bool, typer.Option("--into-itself", help="Without a prefix, even into the broker whose history it is.")
    ] = False
    speed: Annotated[
        str, typer.Option(metavar="SPEED", help="1 as it was, 10 ten times as fast, max as fast as can be.")
    ] = "max"

    def check(self) -> tuple[str, Fraction | None]:
        """The prefix with its slash, and the speed; wrong options end the program."""
        # Without --until a replay ends now, so a start in the future is wrong.
        parse_time_span("--since", self.since, "--until", self.until or LATEST)
        if self.topic is not None:
            check_filter("--topic", self.topic)
        return self._checked_prefix(), parse_speed_option(self.speed)

    def _checked_prefix(self) -> str:
        if self.no_prefix and self.prefix is not None:
            fail("give either --prefix or --no-prefix")
        if self.into_itself and not self.no_prefix:
            fail("--into-itself goes with --no-prefix; with a prefix nothing has to be confirmed")
        if self.no_prefix:
            return ""
        prefix = _PREFIX if self.prefix is None else self.prefix
        try:
            check_topic_name(prefix.encode())
        except PeerError as error:
            fail(f"--prefix: {error.detail}; to leave topics as they are, give --no-prefix")
        return prefix if prefix.endswith("/") else f"{prefix}/"


@dataclass(frozen=True, kw_only=True)
class ReplayRunOptions:
    """The lake to read, the name under which a run goes on, and the size of the run."""

    lake: Annotated[str | None, typer.Option(metavar="LAKE", help="An archive: alone, or before what --data has.")] = (
        None
    )
    name: Annotated[str | None, typer.Option(help="A name, under which a run that was ended can go on.")] = None
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where that is noted.", show_default="~/.local/state/holdfast/replays"),
    ] = None
    connections: Annotated[
        int | None,
        typer.Option(metavar="N", help="Connections to the broker.", min=1, max=1024, show_default="tasks of Spark"),
    ] = None
    batch: Annotated[int, typer.Option(metavar="N", help="Messages that are sorted at once.", min=1)] = 5_000_000

    def check(self) -> None:
        """Wrong options end the program."""
        if self.name is not None:
            check_name(self.name)
        if self.state is not None and self.name is None:
            fail("--state is where the notes of a --name are; give one")

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """The folder with the state of the run; of a run without a name a temporary one."""
        if self.name is None:
            with tempfile.TemporaryDirectory(prefix="holdfast-replay-") as folder:
                yield Path(folder)
        else:
            home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
            yield (self.state or home / "holdfast" / "replays").absolute() / self.name


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


@grouped
def replay(
    history: HistorySourceOptions,
    spark: SparkMaster,
    selection: ReplaySelection,
    broker: TargetBrokerOptions,
    run: ReplayRunOptions,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
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
            lake=None if run.lake is None else parse_lake(run.lake).text,
            topic=selection.topic,
            since=selection.since,
            until=selection.until,
            prefix=prefix,
            speed=speed,
            connections=run.connections,
            round_messages=run.batch,
        )
        outcome = run_replay(work, spark.master, job.progress)
        job.summarize(*_summary(to.place, outcome, timed=speed is not None))


def _source(history: HistorySourceOptions, lake: str | None) -> dict[str, str]:
    """Options of the data source; none for the lake alone."""
    if history.data is None and history.endpoint is None:
        if lake is not None:
            return {}
        fail("say where from: --data, --endpoint grpc://HOST:PORT, or --lake, or one of them and a lake")
    return history.source_options()


def _check_source(source: dict[str, str], lake: str | None) -> "ReadOptions | None":
    """The options of what is read besides the lake; wrong ones end the program."""
    from holdfast.pipeline.source.history_source import check_source
    from holdfast.pipeline.source.read_options import parse_read_options

    with exit_on(HoldfastError):
        if lake is not None:
            from holdfast.pipeline.lake.formats import open_lake

            open_lake(lake)
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
