"""The cache of counts: right or not there, never too large, never in the way."""

import os
from pathlib import Path

import pytest

from holdfast.history.past.counts_cache import FOLDER, CountsCache, Positions
from tests.formats.golden_records import T, spaced

FAMILY = "log-00000-00000001"

GOLDEN = spaced("""
    48 46 43 4f 55 4e 54 31   5c 0c 96 73
    06 00 66 69 6c 74 65 72   01 00 00 00
    00 40 1e 18 24 0a 06 00   64 40 1e 18 24 0a 06 00   03 00 00 00   04
""")


def positions(cache: CountsCache, name: bytes = b"filter") -> dict[tuple[int, int], list[int]]:
    return {place: block.unpack() for place, block in cache.load(FAMILY, name).items()}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([], id="nothing"),
        pytest.param([T], id="the first position"),
        pytest.param([T + 1, T + 2, T + 99], id="some"),
        pytest.param([T, T + 2**40, T + 2**41 + 1], id="far apart"),
        pytest.param(list(range(T, T + 50_000)), id="a commit of many"),
    ],
)
def test_what_is_saved_is_loaded(tmp_path: Path, found: list[int]) -> None:
    cache = CountsCache(tmp_path)
    cache.save(FAMILY, b"filter", {(T, T + 100): Positions.pack(T, found), (5, 9): Positions.pack(5, [5, 7])})
    assert positions(cache) == {(T, T + 100): found, (5, 9): [5, 7]}
    assert positions(cache, b"other") == {}


def test_a_file_begins_as_the_formats_say(tmp_path: Path) -> None:
    CountsCache(tmp_path).save(FAMILY, b"filter", {(T, T + 100): Positions.pack(T, [T + 1, T + 2, T + 99])})
    (path,) = (tmp_path / FOLDER).iterdir()
    content = path.read_bytes()
    # The check depends on how zlib packs.
    assert content[:8] + content[12 : len(GOLDEN)] == GOLDEN[:8] + GOLDEN[12:]


def test_messages_that_follow_each_other_take_almost_nothing() -> None:
    assert len(Positions.pack(T, range(T, T + 100_000)).encode(T + 100_000)) < 3_000


def test_any_damage_is_as_if_nothing_was_there(tmp_path: Path) -> None:
    cache = CountsCache(tmp_path)
    cache.save(FAMILY, b"filter", {(T, T + 100): Positions.pack(T, [T + 1, T + 2, T + 99])})
    (path,) = (tmp_path / FOLDER).iterdir()
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at])
        assert positions(cache) == {}
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert positions(cache) == {}
    path.write_bytes(content)
    assert positions(cache) != {}


def test_the_least_recently_used_go_when_there_is_no_room(tmp_path: Path) -> None:
    cache = CountsCache(tmp_path, max_bytes=4_000)
    block = {(0, 1): Positions(0, 1, 4, os.urandom(800))}
    for number in range(4):
        cache.save(FAMILY, b"%d" % number, block)
        path = cache._path(FAMILY, b"%d" % number)
        os.utime(path, (number, number))
    assert cache.load(FAMILY, b"0")  # used just now
    cache.save(FAMILY, b"4", block)
    assert [bool(cache.load(FAMILY, b"%d" % number)) for number in range(5)] == [True, False, True, True, True]
    assert sum(path.stat().st_size for path in (tmp_path / FOLDER).iterdir()) <= 4_000


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    cache = CountsCache(tmp_path, max_bytes=4_000)
    cache.save(FAMILY, b"x", {(0, 1): Positions(0, 1, 4, bytes(2_000))})
    assert not (tmp_path / FOLDER).exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in its place")
    cache = CountsCache(tmp_path)
    cache.save(FAMILY, b"x", {(0, 1): Positions.pack(0, [0])})
    assert cache.load(FAMILY, b"x") == {}
