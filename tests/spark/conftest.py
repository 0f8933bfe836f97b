"""One Spark for all tests of this folder, and a broker in a process of its own whose history it reads.

Nothing of Holdfast is imported before tests/conftest.py has picked the tree to test.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.plant import Plant
    from tests.spark.publishers import Broker


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


#: Spark gives the Python that plans a stream ten seconds to start, and no setting changes that: too few on a machine
#: that is busy with something else just then. It is no task, which would be tried again (`local[2,4]`).
_TOO_SLOW = "worker failed to connect back"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test whose worker Spark did not wait for is run once more; any other failure counts."""
    if not isinstance(item, pytest.Function) or Path(__file__).parent not in item.path.parents:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed and _TOO_SLOW in str(report.longrepr) for report in reports):
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Java is started once: that takes longer than most tests."""
    from holdfast.pipeline.spark.session import session

    running = session("holdfast-tests", master="local[2]", settings={"spark.driver.memory": "1g"})
    yield running
    running.stop()


@pytest.fixture
def broker(tmp_path: Path) -> "Iterator[Broker]":
    """Runs, with its data in a folder."""
    from tests.spark.publishers import Broker

    with Broker(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def plant(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Plant]":
    """Runs, and is only read."""
    from tests.spark.plant import Plant

    with Plant(tmp_path_factory.mktemp("plant")) as running:
        running.fill()
        yield running
