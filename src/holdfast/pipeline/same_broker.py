"""Whether a broker is the one whose history is read.

An address does not tell: a machine has many names, and ports are mapped. So a session is begun at the broker, and
looked for in what is read. It is ended again, and no message is published.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from holdfast.history.reader import HistoryReader
from holdfast.history.tables import SESSIONS, TableQuery, table_batches
from holdfast.pipeline.broker_connection import connect
from holdfast.pipeline.flight_source import open_endpoint
from holdfast.pipeline.options import Options
from holdfast.pipeline.write_options import WriteOptions

#: If we die in between, it ends by itself.
_EXPIRY_S: Final = 60
_QUERY: Final = TableQuery(SESSIONS, ("client_id",))


def is_same_broker(read: Options, to: WriteOptions) -> bool:
    """LostError and RefusedError as `connect` has them."""
    client_id = f"replay-asks-{uuid4().hex[:16]}"
    connect(to, client_id, session_expiry_s=_EXPIRY_S).close(goodbye=True)
    try:
        # A broker may put a mount point in front of it.
        return any(name.endswith(client_id) for batch in _sessions(read) for name in batch.column(0).to_pylist())
    finally:
        connect(to, client_id).close(goodbye=True)


def _sessions(read: Options) -> Iterator[Any]:
    if read.endpoint:
        with open_endpoint(read) as history:
            yield from history.table(_QUERY)
    else:
        with HistoryReader.open(Path(read.path)) as reader:
            yield from table_batches(reader, _QUERY, time.time_ns() // 1000)
