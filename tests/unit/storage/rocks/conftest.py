"""Logs with the layouts `paged` and `timeline`: the second says what the first has to find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.storage.rocks.log.store import Store


def _store(folder: Path, layout: str) -> Iterator[Store]:
    # Not at the top: this file may be read before tests/conftest.py has picked the tree to test.
    from holdfast.durable.zones import Zone
    from tests.unit.storage.rocks.log.store import Store

    store = Store(folder, default=Zone("default", layout=layout, store_qos0=True))
    yield store
    store.close()


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[Store]:
    yield from _store(tmp_path / "paged", "paged")


@pytest.fixture
def timeline(tmp_path: Path) -> Iterator[Store]:
    yield from _store(tmp_path / "timeline", "timeline")
