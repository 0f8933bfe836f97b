"""A lake of small files, as large as one likes, made without a broker.

python -m tests.spark.large_lake LAKE FILES
"""

import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.model.time import DAY_US
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_files import write_files
from holdfast.pipeline.lake.store import LakeAddress
from holdfast.pipeline.source.offsets import Offset

#: Of a file, which has about 4 MB: payloads cannot be compressed.
FILE_ROWS = 4_000
PAYLOAD_BYTES = 1_000
#: A day that is over.
FIRST_US = 1_700_000_000_000_000
_FILES_OF_A_BATCH = 20


def fill_lake(where: LakeAddress, files: int, days: int = 1) -> int:
    """Rows of one shard, in so many files of one pattern, each of the next day; how many rows it has."""
    lake = Lake.open_or_make(where, "main")
    dice = Random(7)
    first = lake.offsets[0].serial if 0 in lake.offsets else 0
    for number in range(first // FILE_ROWS, first // FILE_ROWS + files, _FILES_OF_A_BATCH):
        last = min(number + _FILES_OF_A_BATCH, first // FILE_ROWS + files)
        written = [
            file
            for one in range(number, last)
            for file in write_files(lake.store, _batches(dice, one, one % days), ()).files
        ]
        serial = last * FILE_ROWS
        lake.commit({0: Offset(FIRST_US + serial, serial)}, written, {})
    return first + files * FILE_ROWS


def _batches(dice: Random, number: int, day: int) -> Iterator[Any]:
    for serial in range(number * FILE_ROWS + 1, (number + 1) * FILE_ROWS + 1, 1_000):
        rows = [
            {
                "ts": FIRST_US + day * DAY_US + one,
                "shard": 0,
                "offset": FIRST_US + one,
                "topic": f"plant/{one % 50}/temp",
                "client_id": f"device-{one % 50}",
                "qos": 1,
                "retain": False,
                "payload": b"%d " % one + dice.randbytes(PAYLOAD_BYTES),
                "user_properties": [("unit", "C")] if one % 100 == 0 else [],
                "serial": one,
                "received_at": FIRST_US + one,
                "properties": b"",
            }
            for one in range(serial, serial + 1_000)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


if __name__ == "__main__":
    print(fill_lake(sys.argv[1], int(sys.argv[2])), "rows")
