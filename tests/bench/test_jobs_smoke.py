"""The benchmark of Spark's jobs runs, and its table and picture hold every row, whatever the figures are."""

from __future__ import annotations

import pytest
from rich.progress import Progress

from bench.jobs import command, plot, rows
from bench.jobs.collect import QUICK, one_round


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_round_has_every_value_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are run in the same way, and each takes a start of Spark for each size."""
    [archive] = [job for job in rows.JOBS if job.key == "archive"]
    monkeypatch.setattr(rows, "JOBS", (archive,))

    values = dict(one_round(QUICK, Progress(disable=True)))

    assert sorted(values) == sorted(rows.keys())
    assert not [key for key, value in values.items() if not value > 0]


def test_the_table_holds_every_value_and_judges_goals() -> None:
    results = dict.fromkeys(rows.keys(), 1000.0)
    results |= {"job/archive/rate": 590.0, "job/audit/python_mb/all": 1201.0}

    [table] = command.blocks(results)

    assert [line[0] for line in table.lines] == [job.label for job in rows.JOBS]
    assert {len(line) for line in table.lines} == {len(table.headings)}
    cells = {job.key: line for job, line in zip(rows.JOBS, table.lines, strict=True)}
    assert cells["archive"][2] == "0.59x of copy (≥ 0.6x), missed"
    assert cells["audit"][3] == "1,000 → 1,201 MB, grows"
    assert cells["learn"][3] == "1,000 → 1,000 MB"
    picture = plot.draw(results)
    assert not [job.label for job in rows.JOBS if job.label.replace("`", "") not in picture]
