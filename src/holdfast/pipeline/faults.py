"""Fault points: places where a test has the process killed, as a power cut or an operator's kill -9 would.

    HOLDFAST_FAULT=archive-committed holdfast spark archive …

| fault                | the archive dies                                                        |
|----------------------|-------------------------------------------------------------------------|
| `archive-begun`      | when it holds the lake, before it wrote anything                        |
| `archive-written`    | when the files of a batch are written, before they belong to the table  |
| `archive-committed`  | when the table has the batch, before anybody else knows                 |
| `archive-compacted`  | when small files were replaced, before anything is cleaned up           |

| fault                  | a declared pipeline dies in STEP                                             |
|------------------------|------------------------------------------------------------------------------|
| `run-written-STEP`     | when the files of a batch are written, before they belong to a table         |
| `run-quarantined-STEP` | when the quarantine has its part of a batch, and the other table has not     |
| `run-committed-STEP`   | when the tables have the batch, before anybody else knows                    |
| `run-done-STEP`        | when a batch is done, before Spark notes that                                |

Without the variable nothing happens.
"""

import os
import signal
from typing import Final

VARIABLE: Final = "HOLDFAST_FAULT"


def fault(name: str) -> None:
    """Die here, if that is wanted."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
