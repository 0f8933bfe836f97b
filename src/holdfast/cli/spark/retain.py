"""`holdfast spark retain`: old days out of a lake, small files into large ones, and messages erased for good."""

import getpass
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.commands import fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.output.text import format_size
from holdfast.cli.spark.job_output import job_output
from holdfast.cli.spark.options import SparkMaster, check_data_folder, check_filter, check_lake, lake_folder, parse_lake
from holdfast.pipeline.lake.store_options import is_iceberg

if TYPE_CHECKING:
    from holdfast.pipeline.lake.retention import RetainJob, RetainOutcome

_STOPPED: Final = "what is committed stays; run it again to finish"
_AGE: Final = re.compile(r"(\d{1,5})([dw])")
_DAYS: Final = {"d": 1, "w": 7}


@dataclass(frozen=True, kw_only=True)
class RetainOptions:
    """What is done to a lake."""

    lake: Annotated[str, typer.Option(metavar="LAKE", help="Where the Delta table lies: a folder, s3://BUCKET/PATH.")]
    data: Annotated[
        Path | None, typer.Option(help="The broker's data folder; needed to erase: the log must hide it, too.")
    ] = None
    older_than: Annotated[str | None, typer.Option(metavar="AGE", help="Drop days that are older: 90d, 12w.")] = None
    compact: Annotated[bool, typer.Option("--compact", help="Make large files of small ones.")] = False
    erase_client: Annotated[str | None, typer.Option(metavar="ID", help="Erase what this client published.")] = None
    erase_topic: Annotated[str | None, typer.Option(metavar="FILTER", help="Erase the messages of these topics.")] = (
        None
    )
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False

    def check(self) -> None:
        """Anything wrong ends the program."""
        if is_iceberg(self.lake):
            fail(
                f"--lake {self.lake}: this is an Iceberg table, and retain works on lakes of Delta; compact it with "
                f"rewrite_data_files of Spark or Trino; days, clients and topics cannot be taken out of it here yet"
            )
        check_lake(self.lake)
        client, topic = self.erase_client, self.erase_topic
        if client is not None and topic is not None:
            fail("give either --erase-client or --erase-topic; one after the other")
        if client == "":
            fail("--erase-client '': name a client")
        if topic is not None:
            check_filter("--erase-topic", topic)
        if client is not None or topic is not None:
            if self.data is None:
                fail("to erase, name the broker's data folder too, with --data: it would come back otherwise")
            check_data_folder(self.data)
        elif self.older_than is None and not self.compact:
            fail("say what to do: --older-than 90d, --compact, --erase-client ID or --erase-topic FILTER")
        self._days()

    def _days(self) -> int | None:
        """Days that stay; None: all of them."""
        if self.older_than is None:
            return None
        found = _AGE.fullmatch(self.older_than)
        if not found or not int(found[1]):
            fail(f"--older-than {self.older_than!r}: give whole days or weeks, such as 90d or 12w")
        return int(found[1]) * _DAYS[found[2]]

    def job(self) -> "RetainJob":
        from holdfast.pipeline.lake.retention import RetainJob, first_day

        days = self._days()
        return RetainJob(
            parse_lake(self.lake).text,
            None if self.data is None else self.data.absolute(),
            self.erase_client or "",
            self.erase_topic or "",
            None if days is None else first_day(days),
            self.compact,
            self.dry_run,
            f"{getpass.getuser()}@{socket.gethostname()}",
        )


@grouped
def retain(
    spark: SparkMaster,
    options: RetainOptions,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the summary as a line of JSON, and progress as others on standard error."),
    ] = False,
) -> None:
    """Drop old days of a lake, compact it, or erase a client or topics, in the lake and in the broker's history."""
    options.check()
    spark.check()
    work = options.job()
    with job_output("retain", as_json=as_json, stopped=_STOPPED) as job:
        from holdfast.pipeline.lake.erase_task import measure_search
        from holdfast.pipeline.lake.retention import run_retain
        from holdfast.pipeline.spark.runner import SparkRunner

        folder = lake_folder(options.lake)

        def start() -> SparkRunner:
            return SparkRunner.start("holdfast-retain", spark.master, job.progress, measure_search, lake=folder)

        # Elsewhere the folder may not be seen: that is said before anything is hidden in the log.
        started = start() if spark.is_cluster and folder is not None else None
        outcome = run_retain(work, lambda: started or start(), job.progress)
        job.summarize(*_summary(work, outcome))


# ---- for people, and for machines


def _summary(work: "RetainJob", outcome: "RetainOutcome") -> tuple[dict[str, object], str]:
    row = asdict(outcome)
    hidden = {str(shard): position_us for shard, position_us in row.pop("hidden_up_to").items()}
    would = "would be " if work.dry_run else ""
    parts = []
    if work.erases:
        files = f"{outcome.rewritten} files rewritten, {outcome.emptied} emptied"
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
    size = f"{format_size(outcome.size_before)} before, {format_size(outcome.size_bytes)} now"
    words = f"{work.lake}: {', '.join(parts)}; {size}; version {outcome.version}"
    return {"lake": str(work.lake), "dry_run": work.dry_run, **row, "hidden_up_to": hidden}, words
