"""Which MANIFEST, and how long it is for certain."""

from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.manifest import ManifestWatch, manifest_of


def point(folder: Path, number: int, size_bytes: int) -> None:
    (folder / f"MANIFEST-{number:06d}").write_bytes(bytes(size_bytes))
    (folder / "CURRENT").write_text(f"MANIFEST-{number:06d}\n")


def test_the_one_that_current_names_counts(tmp_path: Path) -> None:
    point(tmp_path, 9, 10)
    point(tmp_path, 5, 20)
    assert manifest_of(tmp_path) == (5, 20)


@pytest.mark.parametrize("content", [None, "", "garbage", "MANIFEST-000007\n"])
def test_zeros_when_it_cannot_be_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "CURRENT").write_text(content)
    assert manifest_of(tmp_path) == (0, 0)


def test_the_watch_follows_growth_and_a_new_file(tmp_path: Path) -> None:
    point(tmp_path, 5, 20)
    watch = ManifestWatch(tmp_path)
    assert watch.synced() == (5, 20)
    point(tmp_path, 5, 30)
    assert watch.synced() == (5, 30)
    point(tmp_path, 8, 7)
    (tmp_path / "MANIFEST-000005").unlink()
    assert watch.synced() == (8, 7)


def test_a_length_is_synced_before_it_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    point(tmp_path, 5, 20)
    watch = ManifestWatch(tmp_path)
    for size_bytes, syncs in ((20, 1), (20, 1), (30, 2)):
        point(tmp_path, 5, size_bytes)
        watch.synced()
        assert len(synced) == syncs
