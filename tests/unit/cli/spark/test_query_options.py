"""`holdfast spark sql` and `report` take the history from a folder or an endpoint, each with a lake if there is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from holdfast.cli.spark.options import QueryOptions
from holdfast.history.tokens import Tokens
from tests.unit.pipeline.filled_log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, tokens=Tokens(None))
    log.fill(10)
    yield log
    log.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Looks like one."""
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    return tmp_path / "lake"


def test_a_lake_goes_with_a_folder_and_with_an_endpoint(log: Log, lake: Path) -> None:
    endpoint = log.where["endpoint"]
    by_endpoint = QueryOptions(endpoint=endpoint, lake=str(lake), master="spark://h:7077")
    assert by_endpoint.source() == {"endpoint": endpoint}
    by_folder = QueryOptions(data=Path(log.path), lake=str(lake))
    assert by_folder.source() == {"path": log.path}


def test_a_lake_that_is_none_is_refused(log: Log, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        QueryOptions(endpoint=log.where["endpoint"], lake=str(lake.parent)).source()
    assert f"--lake {lake.parent}: this is no lake" in capsys.readouterr().err
