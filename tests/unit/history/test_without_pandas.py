"""A process that reads history makes Arrow's columns without importing pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

_COLUMNS = """
import sys
import numpy as np
import pyarrow as pa
{}
columns = [pa.array(["text", None]), pa.array(np.array([1, 2])), pa.array([b"one", b"two"], pa.binary())]
table = pa.table(columns, ["a", "b", "c"])
print(table.num_rows, table["a"].to_pylist(), "pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("refusal", "imported"),
    [
        pytest.param("from holdfast.history.without_pandas import refuse_pandas; refuse_pandas()", False, id="refused"),
        pytest.param("import pandas", True, id="not refused"),
        pytest.param(
            "import pandas; from holdfast.history.without_pandas import refuse_pandas; refuse_pandas()",
            True,
            id="imported before",
        ),
    ],
)
def test_columns_are_made_without_pandas_where_it_is_refused(refusal: str, imported: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COLUMNS.format(refusal)],
        env={"PYTHONPATH": str(Path(holdfast.__file__).parent.parent)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert done.stdout == f"2 ['text', None] {imported}\n", done.stderr
