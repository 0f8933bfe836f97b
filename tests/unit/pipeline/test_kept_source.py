"""What one task leaves the next one takes, and sees what is new."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.log import FOR_EVER
from holdfast.history.tokens import Tokens
from holdfast.history.view import DroppedError
from holdfast.pipeline.kept_source import kept_source, let_go
from holdfast.pipeline.opening import opened
from holdfast.pipeline.options import Options, parse_options
from tests.unit.pipeline.stored import Log


@pytest.fixture(params=["path", "endpoint"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    let_go()
    log = Log(tmp_path, tokens=Tokens(None) if request.param == "endpoint" else None)
    log.fill(20)
    yield log
    let_go()
    log.close()


def read(options: Options) -> tuple[int, list[int]]:
    """How many messages tasks read, and which sources they used."""
    with opened(options) as planner:
        planner.heads()
        parts = planner.parts(0, FOR_EVER)
    rows = 0
    used = []
    for part in parts:
        with kept_source(options) as source:
            used.append(id(source))
            rows += sum(batch.num_rows for batch in source.batches(part, (), ("serial",)))
    return rows, used


def test_tasks_share_a_source_and_see_what_is_new(log: Log) -> None:
    options = parse_options(log.where)
    rows, used = read(options)
    log.fill(10)
    log.rotate()
    log.fill(10)
    more, later = read(options)

    assert (rows, more) == (20, 40)
    assert len({*used, *later}) == 1


def test_a_source_that_is_in_use_or_failed_is_not_taken(log: Log) -> None:
    options = parse_options(log.where)
    with opened(options) as planner:
        part = planner.parts(0, FOR_EVER)[0]
    with kept_source(options) as one, kept_source(options) as other:
        assert one is not other
    with pytest.raises(DroppedError), kept_source(options) as failed:
        list(failed.batches(part._replace(generation=7), (), ("serial",)))
    assert failed is one
    with kept_source(options) as fresh:
        assert fresh is not failed


def test_a_broker_that_was_started_anew_is_looked_at_anew(tmp_path: Path) -> None:
    let_go()
    log = Log(tmp_path)
    log.fill(20)
    options = parse_options(log.where)
    _rows, before = read(options)
    with kept_source(options) as source:
        assert id(source) == before[-1]
        held = source
    log.node.reopen()
    with kept_source(options) as source:
        assert source is not held
    let_go()
    log.close()


def test_what_was_dropped_meanwhile_is_gone_for_a_source_that_was_kept(tmp_path: Path) -> None:
    """L12: said, and neither skipped nor read from files that are held open."""
    let_go()
    log = Log(tmp_path)
    log.fill(20)
    options = parse_options(log.where)
    with opened(options) as planner:
        part = planner.parts(0, FOR_EVER)[0]
    read(options)
    log.rotate()
    log.fill(10)
    log.drop_oldest()
    with pytest.raises(DroppedError), kept_source(options) as source:
        list(source.batches(part, (), ("serial",)))
    log.close()
