"""`holdfast spark replay`: history from a log, a lake or both, into a broker, through many connections at a time.

Everything that can be wrong with the options is found before Spark is started, and whether the broker lets us in.

Exit codes: 0 done, 1 it cannot go on, 2 wrong usage, 130 Ctrl-C.
"""

import os
import re
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from holdfast.cli.broker_options import WRONG_USAGE, fail
from holdfast.cli.option_groups import grouped
from holdfast.cli.spark_job import job
from holdfast.cli.spark_options import FAILED, Engine, Where
from holdfast.cli.times import span_of, speed_of
from holdfast.cli.words import iso_time, size_in_words
from holdfast.model.errors import HoldfastError, PeerError
from holdfast.topics.filters import parse_filter
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.pipeline.options import Options
    from holdfast.pipeline.replay import Outcome
    from holdfast.pipeline.write_options import WriteOptions

_PREFIX: Final = "replayed/"
#: The name of a folder, too.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_UNNAMED: Final = "what is published stays; with --name the next run could go on behind it"
_NAMED: Final = "what is published stays, and the next run under this --name goes on behind it"


@dataclass(frozen=True, kw_only=True)
class Into:
    """The broker that messages are published to, and as whom."""

    to: Annotated[str, typer.Option("--to", metavar="URL", help="The broker: mqtt://HOST:PORT, or mqtts:// for TLS.")]
    user: Annotated[str | None, typer.Option("-u", "--user", help="User name there.", show_default=False)] = None
    password_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Its password's variable.", show_default=False)
    ] = None
    password_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its password's file.", show_default=False)
    ] = None
    to_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authorities to trust there, PEM.", show_default=False)
    ] = None
    to_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Our certificate.", show_default=False)] = None
    to_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.", show_default=False)] = None
    qos: Annotated[int, typer.Option("-q", "--qos", help="Quality of service of publishing.", min=1, max=2)] = 1
    retry_for: Annotated[
        int, typer.Option(metavar="SECONDS", help="How long a broker may be away before it fails.", min=0)
    ] = 60

    def check(self) -> None:
        """What can be seen at once; wrong options end the program."""
        if urlsplit(self.to).scheme not in ("mqtt", "mqtts"):
            fail(f"--to {self.to}: give mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS", WRONG_USAGE)
        if self.password_env is not None and self.password_env not in os.environ:
            fail(f"--password-env {self.password_env}: there is no such variable; export it", WRONG_USAGE)
        files = {"--password-file": self.password_file, "--to-ca": self.to_ca, "--to-cert": self.to_cert}
        for option, path in {**files, "--to-key": self.to_key}.items():
            if path is not None and not path.is_file():
                fail(f"{option} {path}: there is no such file", WRONG_USAGE)

    def options(self) -> "WriteOptions":
        from holdfast.pipeline.write_options import parse_write_options

        given = {
            "broker": self.to,
            "user": self.user,
            "passwordEnv": self.password_env,
            "passwordFile": _absolute(self.password_file),
            "caFile": _absolute(self.to_ca),
            "certFile": _absolute(self.to_cert),
            "keyFile": _absolute(self.to_key),
            "qos": str(self.qos),
            "retryForS": str(self.retry_for),
        }
        try:
            return parse_write_options({key: text for key, text in given.items() if text is not None})
        except HoldfastError as error:
            fail(str(error).replace("option broker", f"--to {self.to}"), WRONG_USAGE)


@dataclass(frozen=True, kw_only=True)
class What:
    """What is replayed, and how."""

    topic: Annotated[
        str | None, typer.Option("--topic", metavar="FILTER", help="Messages of this filter only.", show_default="all")
    ] = None
    since: Annotated[
        str, typer.Option("--since", "--from", metavar="T", help="earliest, ISO 8601, Unix microseconds, or -2h.")
    ] = "earliest"
    until: Annotated[str | None, typer.Option(metavar="T", help="The end, in these words.", show_default="now")] = None
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
        # Until now, if nothing is said: so a start in the future is wrong.
        span_of("--since", self.since, "--until", self.until or LATEST)
        if self.topic is not None:
            try:
                parsed = parse_filter(self.topic.encode())
            except PeerError as error:
                fail(f"--topic: {error.detail}", WRONG_USAGE)
            if parsed.group or parsed.since:
                fail(f"--topic {self.topic}: write the filter alone, without $replay/ and $share/", WRONG_USAGE)
        return self._checked_prefix(), speed_of(self.speed)

    def _checked_prefix(self) -> str:
        if self.no_prefix and self.prefix is not None:
            fail("give either --prefix or --no-prefix", WRONG_USAGE)
        if self.into_itself and not self.no_prefix:
            fail("--into-itself goes with --no-prefix; with a prefix nothing has to be confirmed", WRONG_USAGE)
        if self.no_prefix:
            return ""
        prefix = _PREFIX if self.prefix is None else self.prefix
        try:
            check_topic_name(prefix.encode())
        except PeerError as error:
            fail(f"--prefix: {error.detail}; to leave topics as they are, give --no-prefix", WRONG_USAGE)
        return prefix if prefix.endswith("/") else f"{prefix}/"


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
    from holdfast.pipeline.replay import ReplayJob, run_replay

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

        def make_spark() -> "SparkSession":
            from holdfast.pipeline.spark_session import session

            run.begin("starting Spark")
            return session("holdfast-replay", master=engine.master)

        def progress(share: float, done: int, planned: int) -> None:
            run.progress(share, f"{done:,} of {planned:,} messages")

        outcome = run_replay(work, make_spark, progress)
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
        fail(f"--to {to.place}: {error}", FAILED)
    if same:
        fail(
            f"--to {to.place} is the broker whose history is replayed: without a prefix its subscribers would get "
            f"everything again, and its history would have it twice. Give --prefix, or --into-itself if that is meant",
            WRONG_USAGE,
        )


def _default_state() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "holdfast" / "replays"


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


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
