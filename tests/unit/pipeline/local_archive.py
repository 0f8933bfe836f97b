"""The archive without Spark: its tasks run here, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.files.token_file import add_token
from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tokens import Tokens
from holdfast.pipeline.lake.archive_job import ArchiveJob, ArchiveOutcome, run_archive
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.source.read_options import parse_read_options
from tests.unit.pipeline.filled_log import Key, keys
from tests.unit.server.certificates import Authority


def here(work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """A runner."""
    return [work(task) for task in tasks]


def archive(
    path: str | Path,
    lake: LakeAddress,
    name: str = "main",
    *,
    batch_rows: int = 1_000,
    compacts: bool = False,
    **given: str,
) -> ArchiveOutcome:
    """Archive all that is durable now, from a folder, or from where it is served."""
    where = "endpoint" if str(path).startswith("grpc") else "path"
    job = ArchiveJob(
        parse_read_options({where: str(path), **given}), lake, name, batch_rows=batch_rows, compacts=compacts
    )
    return run_archive(job, lambda: here)


@contextmanager
def served(folder: str) -> Iterator[str]:
    """The endpoint of a server beside a log."""
    pool = ReaderPool(Path(folder), 2)
    server = FlightServer(Path(folder), pool, Tokens(None), "127.0.0.1", 0)
    try:
        yield f"grpc://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        pool.close()


@contextmanager
def guarded(folder: str, secrets: Path) -> Iterator[dict[str, str]]:
    """Options that open a server which wants a token and speaks TLS; the files for that are made in `secrets`."""
    authority = Authority(secrets)
    files = authority.server_files("history")
    (secrets / "token").write_text(add_token(secrets / "tokens", "spark"), encoding="utf-8")
    pool = ReaderPool(Path(folder), 2)
    tls = (files["certificate"].read_bytes(), files["key"].read_bytes())
    server = FlightServer(Path(folder), pool, Tokens(secrets / "tokens"), "127.0.0.1", 0, tls)
    try:
        yield {
            "endpoint": f"grpcs://localhost:{server.port}",
            "tokenFile": str(secrets / "token"),
            "ca": str(authority.file),
        }
    finally:
        server.shutdown()
        pool.close()


def rows(lake: LakeAddress) -> list[dict[str, Any]]:
    """What any reader of Delta finds."""
    found: list[dict[str, Any]] = Lake.open(lake).table.to_pyarrow_table().to_pylist()
    return found


def archived(lake: LakeAddress) -> list[Key]:
    """Which messages these are; one that is there twice is twice in the list."""
    return keys(rows(lake))
