"""The same messages in other forms: Parquet files, and the JSON files that an MQTT client in Python would write."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS

#: Messages of a file.
_FILE = 250_000


def write_parquet(data: Path, folder: Path) -> None:
    folder.mkdir()
    with HistoryReader.open(data) as reader:
        pieces = [piece for part in reader.parts() for piece in part.split(4)]
        for number, piece in enumerate(pieces):
            batches = list(reader.batches(piece, (), DEFAULT_COLUMNS))
            if batches:
                with pq.ParquetWriter(folder / f"{number}.parquet", batches[0].schema) as writer:
                    for batch in batches:
                        writer.write_batch(batch)


def write_json(data: Path, folder: Path) -> float:
    """As a client's callback would: a line for each message. CPU in s, of that alone."""
    folder.mkdir()
    cpu_s = 0.0
    with HistoryReader.open(data) as reader:
        rows = (
            row
            for part in reader.parts()
            for batch in reader.batches(part, (), ("offset", "topic", "qos", "payload"), in_order=False)
            for row in batch.to_pylist()
        )
        number = 0
        while chunk := [row for _index, row in zip(range(_FILE), rows, strict=False)]:
            began_s = time.process_time()
            with (folder / f"{number}.json").open("w", encoding="utf-8") as file:
                for row in chunk:
                    line = {
                        "ts": row["offset"],
                        "topic": row["topic"],
                        "qos": row["qos"],
                        "payload": row["payload"].hex(),
                    }
                    file.write(json.dumps(line) + "\n")
            cpu_s += time.process_time() - began_s
            number += 1
    return cpu_s
