"""One RocksDB for all tests of a module; each test takes column families of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.storage.rocks.layouts.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    # Not at the top: this file may be read before tests/conftest.py has picked the tree to test.
    from tests.unit.storage.rocks.layouts.store import Store

    store = Store(tmp_path_factory.mktemp("rocks"))
    yield store
    store.close()
