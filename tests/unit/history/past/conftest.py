"""A past in a folder, and questions about it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disk_world import DiskWorld
from tests.unit.history.past.asked_broker import Asked
from tests.unit.history.past.past_folder import LAYOUTS, PastFolder
from tests.unit.history.past.questioner import Questioner
from tests.unit.storage.rocks.log.store import Store, zone


@pytest.fixture(scope="module", params=LAYOUTS)
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PastFolder]:
    """Not to be changed."""
    folder = PastFolder(tmp_path_factory.mktemp("past"), request.param)
    yield folder
    folder.close()


@pytest.fixture(scope="module")
def ask(past: PastFolder) -> Iterator[Questioner]:
    with Questioner(past.folder) as questioner:
        yield questioner


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with DiskWorld(tmp_path, shards=2) as world:
        asked = Asked(world, tmp_path)
        with asked.ask:
            yield asked


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty log with one shard."""
    store = Store(tmp_path, default=zone("default", shards=1))
    yield store
    store.close()
