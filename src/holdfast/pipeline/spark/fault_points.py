"""Fault points: places where a test has the process killed, as a power cut or an operator's kill -9 would.

    HOLDFAST_FAULT=archive-committed holdfast spark archive …

| fault                | the job dies                                                            |
|----------------------|-------------------------------------------------------------------------|
| `archive-begun`      | when it holds the lake, before it wrote anything                        |
| `archive-written`    | when the files of a batch are written, before they belong to the table  |
| `archive-staged`     | when Iceberg's manifests are written, before the catalog has the batch  |
| `archive-committed`  | when the table has the batch, before its lease is renewed               |
| `compaction-written` | when large files are written, before they are in place of small ones    |
| `archive-compacted`  | when small files were replaced, before anything is cleaned up           |
| `learn-learnt`       | when all is counted, before anything is said or applied                 |
|                      | **`retain` dies while it erases**                                       |
| `retain-hidden`      | when the log hides what is erased, before the lake is touched           |
| `retain-written`     | when files are rewritten and recorded, before they are in the table     |
| `retain-committed`   | when the table has them, before the old ones are removed                |
|                      | **`audit` dies**                                                        |
| `audit-read`         | when it has read the log, before it has judged anything                 |

| fault                  | a declared pipeline dies in STEP                                             |
|------------------------|------------------------------------------------------------------------------|
| `run-written-STEP`     | when the files of a batch are written, before they belong to a table         |
| `run-quarantined-STEP` | when the quarantine has its part of a batch, and the other table has not     |
| `run-committed-STEP`   | when the tables have the batch, before anybody else knows                    |
| `run-done-STEP`        | when a batch is done, before Spark notes that                                |

| fault                | the load dies                                                           |
|----------------------|-------------------------------------------------------------------------|
| `load-tables`        | when its tables are written, before they are a shipment                 |
| `load-shipped`       | when its shipment is whole, before it is ingested                       |
| `load-taken`         | when it is in the log, before it is read back                           |

| fault                | relayout dies                                                           |
|----------------------|-------------------------------------------------------------------------|
| `relayout-tables`    | when tables were written and read on trial                              |
| `relayout-shipped`   | when a shipment is whole, before it is ingested                         |
| `relayout-taken`     | when the new edition is in the log, before it is read back              |

| fault                | a task of migrate dies                                                  |
|----------------------|-------------------------------------------------------------------------|
| `migrate-halfway`    | in the middle of a queue, when a page of its messages is there          |

Without the variable nothing happens.
"""

import os
import signal
from typing import Final

VARIABLE: Final = "HOLDFAST_FAULT"


def fault(name: str) -> None:
    """Kill this process, if HOLDFAST_FAULT names this point."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
