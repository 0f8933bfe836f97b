"""Which cache folder is used, by whom, and what is removed from it."""

import json
import os
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from holdfast.files.lock import FileLock
from holdfast.pipeline.spark.installation import SparkInstallation
from holdfast.pipeline.spark.start_cache import StartFiles, prepare_start
from tests.unit.pipeline.spark.cache_world import Archiving, java_in, names, prepare

MONTH_S = 31 * 86_400


def test_a_link_in_place_of_the_cache_is_not_followed(
    java: Path, tmp_path: Path, archiving: Archiving, caplog: pytest.LogCaptureFixture
) -> None:
    """Where other users may make files, it may lead to a folder of this user."""
    mine = tmp_path / "mine"
    (mine / "letters").mkdir(parents=True)
    (tmp_path / "cache").symlink_to(mine)

    assert prepare(java, tmp_path / "cache") == StartFiles()

    assert names(mine) == {"letters"}
    assert f"{tmp_path / 'cache'} is a link" in caplog.text
    assert archiving.runs == 0


def test_without_a_home_there_is_no_cache(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Any user may make a folder of its name where temporary files lie."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    assert prepare_start(java, print, {}) == StartFiles()

    assert not (tmp_path / "temporary").exists()
    assert "HOME is not set" in caplog.text
    assert archiving.runs == 0


def test_a_folder_that_others_may_write_to_is_not_used(
    java: Path, tmp_path: Path, archiving: Archiving, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs are run from it."""
    cache = tmp_path / "cache"
    prepare(java, cache)
    cache.chmod(0o777)

    assert prepare(java, cache) == StartFiles()
    assert f"other users may write to {cache} (mode 0777); right would be: chmod go-w {cache}" in caplog.text
    assert archiving.runs == 1


# ---- a cache that another user prepared


class Access:
    """Stands for what the system answers to another user: root may read and write everything."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed

    def __call__(self, _path: Path, mode: int) -> bool:
        return not mode & ~self._allowed


def test_the_cache_of_an_image_is_used_by_a_user_who_may_not_write_to_it(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = prepare(java, tmp_path / "cache")
    (tmp_path / "cache" / "lock").unlink()
    monkeypatch.setattr(os, "access", Access(os.R_OK | os.X_OK))

    assert prepare(java, tmp_path / "cache") == first

    assert not (tmp_path / "cache" / "lock").exists()
    assert caplog.text == ""
    assert archiving.runs == 1


def test_where_only_its_owner_can_prepare_a_cache_the_owner_is_named(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(0o755)
    monkeypatch.setattr(os, "access", Access(os.R_OK | os.X_OK))
    why = "is read-only"
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
        why = "only user root may write to it"

    assert prepare(java, cache) == StartFiles()

    assert f"it has no {SparkInstallation.find(java).key}, and {why}" in caplog.text
    assert not (cache / "lock").exists()
    assert archiving.runs == 0


def test_a_cache_that_only_its_owner_may_read_is_said_to_be_so(
    java: Path,
    tmp_path: Path,
    archiving: Archiving,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = tmp_path / "cache"
    prepare(java, cache)
    monkeypatch.setattr(os, "access", Access(0))

    assert prepare(java, cache) == StartFiles()

    assert f"only user {cache.owner()} may read it; right would be: chmod -R a+rX {cache}" in caplog.text
    assert archiving.runs == 1


# ---- what is not needed any more


def laid_out(cache: Path, installation: SparkInstallation) -> Path:
    """A folder as another session made it."""
    folder = cache / installation.key
    folder.mkdir()
    (folder / "installation.json").write_text(json.dumps({"installation": asdict(installation)}), encoding="utf-8")
    return folder


def test_what_is_gone_or_unused_is_removed_and_what_may_be_needed_is_kept(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    mine = SparkInstallation.find(java)
    living = SparkInstallation.find(java_in(tmp_path / "living"))
    gone = replace(living, java=str(tmp_path / "gone"))
    laid_out(cache, gone)
    laid_out(cache, replace(mine, stamps=("1", "2", "3")))
    used = laid_out(cache, replace(gone, holdfast_version="0.0.8"))
    unused = laid_out(cache, replace(living, holdfast_version="0.0.9"))
    os.utime(unused, (time.time() - MONTH_S,) * 2)
    (cache / f"{gone.key}.0123456789ab.part").mkdir()
    (cache / f"{mine.key}.0123456789ab.part" / "home").mkdir(parents=True)
    (cache / f"{mine.key}.0123456789ab.part" / "installation.json").write_text(
        json.dumps({"installation": asdict(mine)}), encoding="utf-8"
    )
    kept = laid_out(cache, living)

    with FileLock(used, create=False) as user:
        assert user.acquire(shared=True, wait_s=0)
        prepare(java, cache)

    assert names(cache) == {"lock", mine.key, kept.name, used.name}
    assert archiving.runs == 1


def test_another_holdfast_on_the_same_spark_keeps_what_it_prepared(
    java: Path, tmp_path: Path, archiving: Archiving
) -> None:
    """Two environments that take turns would each prepare anew."""
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    older = laid_out(cache, replace(SparkInstallation.find(java), holdfast_version="0.0.9"))

    prepare(java, cache)

    assert older.is_dir()
    assert archiving.runs == 1


def test_what_is_not_its_own_is_kept(java: Path, tmp_path: Path, archiving: Archiving) -> None:
    """The variable may name a folder that holds other things."""
    cache = tmp_path / "cache"
    key = SparkInstallation.find(java).key
    gone = replace(SparkInstallation.find(java), java=str(tmp_path / "gone"))
    row = json.dumps({"installation": asdict(gone)})
    foreign = (
        "postgresql/15/main",
        "download.part",
        "4.3.0-java17.0.99-0.1.0-0123456789ab/not marked",
        f"{gone.key}.0123456789ab.part/not marked",
        "marked, under another name",
        "empty",
    )
    for name in foreign:
        (cache / name).mkdir(parents=True)
        os.utime(cache / name.partition("/")[0], (time.time() - MONTH_S,) * 2)
    (cache / "marked, under another name" / "installation.json").write_text(row, encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "installation.json").write_text(row, encoding="utf-8")
    (cache / gone.key).symlink_to(elsewhere)
    cache.chmod(0o700)

    prepare(java, cache)

    assert all((cache / name).is_dir() for name in foreign)
    assert (cache / gone.key / "installation.json").exists()
    assert names(cache) == {"lock", key, gone.key, *(name.partition("/")[0] for name in foreign)}
    assert archiving.runs == 1
