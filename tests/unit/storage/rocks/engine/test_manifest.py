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
    assert watch.synced(1.0) == (5, 20)
    point(tmp_path, 5, 30)
    assert watch.synced(2.0) == (5, 30)
    point(tmp_path, 8, 7)
    (tmp_path / "MANIFEST-000005").unlink()
    assert watch.synced(3.0) == (8, 7)


def test_the_file_is_looked_at_ten_times_a_second(tmp_path: Path) -> None:
    point(tmp_path, 5, 20)
    watch = ManifestWatch(tmp_path)
    assert watch.synced(1.0) == (5, 20)
    point(tmp_path, 5, 30)
    assert watch.synced(1.05) == (5, 20)
    assert watch.synced(1.11) == (5, 30)


def test_a_length_is_synced_before_it_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    point(tmp_path, 5, 20)
    watch = ManifestWatch(tmp_path)
    for now_s, (size_bytes, syncs) in enumerate(((20, 1), (20, 1), (30, 2))):
        point(tmp_path, 5, size_bytes)
        watch.synced(float(now_s))
        assert len(synced) == syncs


def test_one_that_is_replaced_while_it_is_looked_at_is_found_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(tmp_path, 5, 20)
    watch = ManifestWatch(tmp_path)

    def gone(path: Path) -> None:
        path.unlink()
        point(tmp_path, 8, 7)
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.storage.rocks.engine.manifest.sync_path", gone)
        assert watch.synced(1.0) == (0, 0)
    assert watch.synced(1.0) == (8, 7)
