"""What a writer has published, for whoever asks afterwards."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from holdfast.pipeline.reporting import LOGGER


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """One task, on its way back to the driver."""

    partition: int
    rows: int
    #: Of topics and payloads.
    bytes: int


def summarize(parts: Sequence[WriterCommitMessage | None], file: str | None, **more: Any) -> None:
    """In the driver: say it, and append it to a file as one line."""
    published = [part for part in parts if isinstance(part, Published)]
    rows, size = sum(part.rows for part in published), sum(part.bytes for part in published)
    LOGGER.info("published %d rows, %d bytes, from %d partitions", rows, size, len(published))
    if file is not None:
        line = {**more, "rows": rows, "bytes": size, "partitions": [asdict(part) for part in published]}
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
