"""A store of one zone, closed when the test ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.storage.rocks.log.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator["Store"]:
    # Not at the top: this file is read before tests/conftest.py has picked the tree to test.
    from tests.unit.storage.rocks.log.store import Store

    store = Store(tmp_path / "data")
    yield store
    store.close()
