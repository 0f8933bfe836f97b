"""What one task leaves the next one takes, and sees what is new."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.log import NO_END
from holdfast.history.reader.view import DroppedError
from holdfast.history.tokens import Tokens
from holdfast.pipeline.source.history_source import open_source
from holdfast.pipeline.source.partitions import cached_source, clear_cache
from holdfast.pipeline.source.read_options import ReadOptions, parse_read_options
from tests.unit.pipeline.filled_log import Log


@pytest.fixture(params=["path", "endpoint"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    clear_cache()
    log = Log(tmp_path, tokens=Tokens(None) if request.param == "endpoint" else None)
    log.fill(20)
    yield log
    clear_cache()
    log.close()


def read(options: ReadOptions) -> tuple[int, list[int]]:
    """How many messages tasks read, and which sources they used."""
    with open_source(options) as planner:
        planner.refresh()
        parts = planner.parts(0, NO_END)
    rows = 0
    used = []
    for part in parts:
        with cached_source(options) as source:
            used.append(id(source))
            rows += sum(batch.num_rows for batch in source.batches(part, (), ("serial",), in_order=False))
    return rows, used


def test_tasks_share_a_source_and_see_what_is_new(log: Log) -> None:
    options = parse_read_options(log.where)
    rows, used = read(options)
    log.fill(10)
    log.rotate()
    log.fill(10)
    more, later = read(options)

    assert (rows, more) == (20, 40)
    assert len({*used, *later}) == 1


def test_a_source_that_is_in_use_or_failed_is_not_taken(log: Log) -> None:
    options = parse_read_options(log.where)
    with open_source(options) as planner:
        part = planner.parts(0, NO_END)[0]
    with cached_source(options) as one, cached_source(options) as other:
        assert one is not other
    with pytest.raises(DroppedError), cached_source(options) as failed:
        list(failed.batches(part._replace(generation=7), (), ("serial",), in_order=False))
    assert failed is one
    with cached_source(options) as fresh:
        assert fresh is not failed


def test_a_broker_that_was_started_anew_is_looked_at_anew(tmp_path: Path) -> None:
    clear_cache()
    log = Log(tmp_path)
    log.fill(20)
    options = parse_read_options(log.where)
    _rows, before = read(options)
    with cached_source(options) as source:
        assert id(source) == before[-1]
        held = source
    log.node.reopen()
    with cached_source(options) as source:
        assert source is not held
    clear_cache()
    log.close()


def test_what_was_dropped_meanwhile_is_gone_for_a_source_that_was_kept(tmp_path: Path) -> None:
    """L12: said, and neither skipped nor read from files that are held open."""
    clear_cache()
    log = Log(tmp_path)
    log.fill(20)
    options = parse_read_options(log.where)
    with open_source(options) as planner:
        part = planner.parts(0, NO_END)[0]
    read(options)
    log.rotate()
    log.fill(10)
    log.drop_oldest()
    with pytest.raises(DroppedError), cached_source(options) as source:
        list(source.batches(part, (), ("serial",), in_order=False))
    log.close()
