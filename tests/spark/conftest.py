"""One Spark for all tests of this folder, and a broker in a process of its own whose history it reads.

Nothing of Holdfast is imported before tests/conftest.py has picked the tree to test.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.plant import Plant
    from tests.spark.publishing import Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Java is started once: that takes longer than most tests."""
    from holdfast.pipeline.spark_session import session

    running = session("holdfast-tests", master="local[2]", settings={"spark.driver.memory": "1g"})
    yield running
    running.stop()


@pytest.fixture
def broker(tmp_path: Path) -> "Iterator[Broker]":
    """Runs, with its data in a folder."""
    from tests.spark.publishing import Broker

    with Broker(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def plant(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Plant]":
    """Runs, and is only read."""
    from tests.spark.plant import Plant

    with Plant(tmp_path_factory.mktemp("plant")) as running:
        running.fill()
        yield running
