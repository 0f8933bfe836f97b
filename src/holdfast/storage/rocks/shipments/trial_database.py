"""A trial of a shipment: its tables are read by the layout that will read them, before they replace anything.

They are linked into a separate database beside the log, which is removed afterwards.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocksdict import AccessType, IngestExternalFileOptions, Options, Rdict

from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.storage.rocks.log.zone_generations import LiveGeneration
from holdfast.storage.rocks.shipments.shipment import TABLES

_FOLDER: Final = "trial"
_LINKS: Final = "trial-links"


@contextmanager
def open_trial(folder: Path, record: Generation, tables: Mapping[int, tuple[str, ...]]) -> Iterator[Path]:
    """A database with the tables of a generation, by shard, in the folder of a shipment."""
    path, links = folder / _FOLDER, folder / _LINKS
    try:
        links.mkdir()
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        database = Rdict(str(path), options)
        try:
            for shard in record.shards:
                family = database.create_column_family(record.family(shard), Options(raw_mode=True))
                linked = [_linked(folder / TABLES / name, links) for name in tables.get(shard, ())]
                if linked:
                    move = IngestExternalFileOptions()
                    move.set_move_files(True)
                    family.ingest_external_file(linked, move)
                family.close()
        except Exception as error:
            raise PermanentError(f"the tables of generation {record.number} cannot be read: {error}") from error
        finally:
            database.close()
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(links, ignore_errors=True)


def read_trial(path: Path, record: Generation, shard: int, lo_us: int, hi_us: int) -> Iterator[bytes]:
    """The messages of [lo, hi) of a shard. Any process."""
    names = [record.family(one) for one in record.shards]
    families = {name: Options(raw_mode=True) for name in ["default", *names]}
    database = Rdict(str(path), Options(raw_mode=True), column_families=families, access_type=AccessType.read_only())
    family = database.get_column_family(record.family(shard))
    try:
        layout = LiveGeneration(record).by_shard[shard].layout
        yield from filter(None, layout.read(family, (), lo_us, hi_us, in_order=False))
    finally:
        family.close()
        database.close()


def _linked(table: Path, links: Path) -> str:
    link = links / table.name
    try:
        os.link(table, link)
    except OSError:  # a disk without links
        shutil.copy2(table, link)
    return str(link)
