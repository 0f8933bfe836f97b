"""Catalogs of Iceberg for tests, and what pyiceberg itself finds in their tables."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from holdfast.pipeline.lake.iceberg.iceberg_lake import IcebergLake
from holdfast.pipeline.source.offsets import Offset, Offsets
from tests.unit.pipeline.filled_log import Key, keys

ADDRESS = "iceberg://main/plant.messages"
NAME = ("plant", "messages")


def catalog_options(folder: Path) -> dict[str, str]:
    """Of a catalog in a file of SQLite, with its tables in a folder beside it."""
    return {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def catalog_variables(options: dict[str, str]) -> dict[str, str]:
    return {f"PYICEBERG_CATALOG__MAIN__{key.upper().replace('-', '_')}": value for key, value in options.items()}


@contextmanager
def other_program(options: dict[str, str]) -> Iterator[Catalog]:
    """The catalog as any other program opens it."""
    with closing(load_catalog("main", **options)) as catalog:
        yield catalog


def table_of(options: dict[str, str]) -> Table:
    with other_program(options) as catalog:
        return catalog.load_table(NAME)


def rows(options: dict[str, str]) -> list[dict[str, Any]]:
    """What any reader of Iceberg finds."""
    found: list[dict[str, Any]] = table_of(options).scan().to_arrow().to_pylist()
    return found


def archived(options: dict[str, str]) -> list[Key]:
    """Which messages these are; one that is there twice is twice in the list."""
    return keys(rows(options))


def data_files(lake: IcebergLake) -> set[str]:
    """Parquet files that lie there, whether the table has them or not."""
    return {path for path in lake.store.list_paths("data") if path.endswith(".parquet")}


def snapshots(options: dict[str, str]) -> int:
    return len(table_of(options).metadata.snapshots)


def moved(lake: IcebergLake) -> Offsets:
    """A little further than the lake is, without a message in between."""
    return {shard: Offset(offset.position_us + 1, offset.serial) for shard, offset in lake.offsets.items()}
