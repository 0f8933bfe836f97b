"""Options that commands on Spark share, checked without Spark: it takes seconds to start, and a wrong option none."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.commands import exit_on, fail
from holdfast.model.errors import HoldfastError, PeerError
from holdfast.pipeline.lake.store_options import StoreAddress, parse_address, read_catalog, read_options
from holdfast.topics.filters import parse_filter

_MISSING: Final = 'this needs Spark, which is not installed; install it with: pip install "holdfast[spark]"'
#: What comes with the extra, and jobs use.
_NEEDED: Final = ("pyspark", "deltalake", "pyarrow")
_ENDPOINT: Final = re.compile(r"grpcs?://(\[[0-9a-fA-F:]+\]|[^/:@\s]+):\d{1,5}")
_EVERY: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Of an archive or a replay: part of the names of folders, leases and transactions.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|(spark|k8s)://.+|yarn")


@dataclass(frozen=True, kw_only=True)
class HistorySourceOptions:
    """The history to read: a data folder, or an endpoint."""

    data: Annotated[Path | None, typer.Option(help="The broker's data folder, if Spark runs on its machine.")] = None
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Its history process, grpc://HOST:PORT.")] = None
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A token for --endpoint, in a file.")] = None
    ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Whom --endpoint grpcs://… has to show, PEM.")] = None

    def source_options(self) -> dict[str, str]:
        """As options of the data source; wrong ones end the program."""
        if (self.data is None) == (self.endpoint is None):
            fail("say where from: either --data, the broker's data folder, or --endpoint, grpc://HOST:PORT")
        if self.endpoint is not None:
            if not _ENDPOINT.fullmatch(self.endpoint):
                fail(f"--endpoint {self.endpoint}: give grpc://HOST:PORT, or grpcs://HOST:PORT")
            files = {"tokenFile": self.token_file, "ca": self.ca}
            return {"endpoint": self.endpoint} | {key: str(path) for key, path in files.items() if path is not None}
        if self.token_file is not None or self.ca is not None:
            fail("--token-file and --ca go with --endpoint; a folder is read without")
        assert self.data is not None
        check_data_folder(self.data)
        return {"path": str(self.data.absolute())}


@dataclass(frozen=True, kw_only=True)
class SparkMaster:
    """Where Spark runs."""

    master: Annotated[str | None, typer.Option(help="Spark's master.", show_default="this machine, local[*,4]")] = None

    @property
    def is_cluster(self) -> bool:
        """Whether executors may run on other machines."""
        return self.master is not None and not self.master.startswith("local")

    def check(self) -> None:
        """A wrong master ends the program, and so does a Spark that is not installed."""
        if self.master is not None and not _MASTER.fullmatch(self.master):
            fail(f"--master {self.master}: give local[*], spark://HOST:PORT, k8s://URL or yarn")
        if any(find_spec(name) is None for name in _NEEDED):
            fail(_MISSING)


@dataclass(frozen=True, kw_only=True)
class QueryOptions(HistorySourceOptions):
    """The history to read, in the log and in a lake, and where Spark runs."""

    lake: Annotated[
        str | None,
        typer.Option(metavar="LAKE", help="An archive of it: history comes from there as far as it reaches."),
    ] = None
    master: Annotated[str | None, typer.Option(help="Spark's master.", show_default="this machine, local[*,4]")] = None

    def source(self, **more: str) -> dict[str, str]:
        """As options of the data source, checked together with `more`: anything wrong ends the program."""
        SparkMaster(master=self.master).check()
        given = self.source_options()
        from holdfast.pipeline.source.history_source import check_source
        from holdfast.pipeline.source.read_options import parse_read_options

        with exit_on(HoldfastError):
            check_source(parse_read_options(given | more))
        if self.lake is not None:
            check_lake(self.lake)
        return given


def parse_interval(every: str | None, *, once: bool) -> float | None:
    """The seconds of --every; None: one round. Anything wrong ends the program."""
    if every is None:
        return None
    if once:
        fail("give either --once or --every")
    found = _EVERY.fullmatch(every)
    if not found or float(found[1]) == 0:
        fail(f"--every {every!r}: give a time such as 500ms, 10s, 5m or 1h")
    return float(found[1]) * _UNITS_S[found[2]]


# ---- checks; what is wrong ends the program


def check_data_folder(data: Path) -> None:
    if not (data / "rocks" / "CURRENT").is_file():
        fail(f"--data {data}: this is no data folder of a broker: it has no database in it")


def parse_lake(address: str, option: str = "--lake") -> StoreAddress:
    """Where a lake is to lie. The store is not asked, but its settings have to be right."""
    with exit_on(HoldfastError, named=option):
        parsed = parse_address(address)
        if parsed.kind == "iceberg":
            read_catalog(parsed.place)
        elif parsed.kind:
            read_options(parsed.kind)
    return parsed


def lake_folder(address: str) -> Path | None:
    """None if it lies in a store of objects, or where a catalog says."""
    parsed = parse_lake(address)
    return None if parsed.kind else Path(parsed.text)


def check_lake(address: str, option: str = "--lake") -> str:
    """The whole address of a lake that is there."""
    parsed = parse_lake(address, option)
    if parsed.kind:
        if any(find_spec(name) is None for name in _NEEDED):
            fail(_MISSING)
        from holdfast.pipeline.lake.formats import open_lake

        with exit_on(HoldfastError, named=option):
            open_lake(parsed.text)
    elif not Path(parsed.text, "_delta_log").is_dir():
        # Whoever uses it opens it; whether there is one can be seen at once.
        fail(f"{option} {address}: this is no lake: it holds no Delta table; holdfast spark archive makes one")
    return parsed.text


def check_output_file(output: Path) -> None:
    if output.is_dir() or not output.absolute().parent.is_dir():
        fail(f"-o {output}: name a file in a folder that is there")


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        fail(f"--name {name!r}: use up to 64 letters, digits, '_' and '-', beginning with a letter or digit")


def check_filter(option: str, text: str) -> None:
    """A filter of topics alone."""
    with exit_on(PeerError, named=option):
        parsed = parse_filter(text.encode())
    if parsed.group or parsed.since:
        fail(f"{option} {text}: write the filter alone, without $replay/ and $share/")
