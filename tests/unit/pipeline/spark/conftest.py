"""A Java that is none, and what stands for the Spark that has Java write its archive.

Nothing of Holdfast is imported before tests/conftest.py has picked the tree to test.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.pipeline.spark.cache_world import Archiving


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """Looks like an installed one."""
    from tests.unit.pipeline.spark.cache_world import java_in

    return java_in(tmp_path / "java")


@pytest.fixture
def archiving(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Archiving]":
    """Makes archives in this process, which has prepared nothing yet."""
    from holdfast.files.lock import FileLock
    from holdfast.pipeline.spark import class_archive, start_cache
    from tests.unit.pipeline.spark.cache_world import Archiving

    archiving = Archiving()
    monkeypatch.setattr(class_archive, "_run", archiving)
    monkeypatch.setattr(start_cache, "_warned", set())
    used: dict[Path, FileLock] = {}
    monkeypatch.setattr(start_cache, "_used", used)
    yield archiving
    for lock in used.values():
        lock.release()
