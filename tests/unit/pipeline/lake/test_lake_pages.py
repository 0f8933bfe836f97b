"""Answers to questions about a lake: page behind page, of the right lake, or a reason."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.durable.lake_page import LakePage, LakeQuestion, decode_page
from holdfast.history.past.questions import QuestionError
from holdfast.history.past.time_scan import ClientGoneError
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake import lake_pages, lake_sweep
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.lake.lake_pages import ForeignLakeError, LakePages
from tests.unit.pipeline.filled_log import Log
from tests.unit.pipeline.iceberg_tables import ADDRESS, catalog_options, catalog_variables
from tests.unit.pipeline.local_archive import archive
from tests.unit.pipeline.swept_lake import everything, fill, question_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, shards=3)
    yield log
    log.close()


@pytest.fixture
def pool(log: Log) -> Iterator[ReaderPool]:
    pool = ReaderPool(Path(log.path), 2)
    yield pool
    pool.close()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def ask(pages: LakePages, pool: ReaderPool, question: LakeQuestion) -> LakePage:
    params = {name: [value] for name, value in question.parameters()}
    return decode_page(b"".join(pages.answer(pool, params, lambda: False).blocks))


def asked(pages: LakePages, pool: ReaderPool, question: LakeQuestion) -> list[tuple[int, int]]:
    """The places of all pages, one question behind the other."""
    found = []
    while question.ranges:
        page = ask(pages, pool, question)
        found += [(message.shard, message.position_us) for message in page.messages]
        question = question.behind(page.up_to_us)
        if page.ends is not None:
            return found
    raise AssertionError("no page said that it is the last")


def test_pages_follow_each_other_and_the_last_one_says_how_far_the_lake_goes(
    log: Log, lake: Path, pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_sweep, "PAGE_MESSAGES", 70)
    fill(log, lake)
    log.fill(100)  # in the log alone
    pages = LakePages(lake)
    archived = {shard: offset.position_us for shard, offset in Lake.open(lake).offsets.items()}
    right = [(row[0], row[1]) for row in everything(log) if row[1] <= archived[row[0]]]
    assert asked(pages, pool, question_of(log)) == right
    first = ask(pages, pool, question_of(log))
    assert first.ends is None
    left = question_of(log, first_us=right[-1][1])
    last = ask(pages, pool, left)
    while last.ends is None:
        left = left.behind(last.up_to_us)
        last = ask(pages, pool, left)
    assert last.ends == {
        shard: (offset.position_us, offset.serial) for shard, offset in Lake.open(lake).offsets.items()
    }
    assert {shard: end.position_us for shard, end in last.ends.items()} == archived


def test_a_lake_of_iceberg_gives_the_same_pages(
    log: Log, pool: ReaderPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in catalog_variables(catalog_options(tmp_path)).items():
        monkeypatch.setenv(name, value)
    fill(log, ADDRESS)
    question = question_of(log, "+/#", first_us=everything(log)[300][1])
    right = [(row[0], row[1]) for row in everything(log, "+/#", first_us=question.ranges[0][0])]
    assert len(right) > 1_000
    assert asked(LakePages(ADDRESS), pool, question) == right


def test_a_catalog_that_is_not_there_is_named(
    log: Log, pool: ReaderPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = catalog_options(tmp_path) | {"uri": f"sqlite:///{tmp_path}/gone/catalog.db"}
    for name, value in catalog_variables(options).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=r"iceberg://main/plant\.messages is no lake: .*gone/catalog\.db"):
        ask(LakePages(ADDRESS), pool, question_of(log))


def test_a_question_that_goes_on_needs_no_sweep_of_its_own_and_any_other_gets_one(
    log: Log, lake: Path, pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_sweep, "PAGE_MESSAGES", 50)
    fill(log, lake)
    begun = 0
    begin = LakePages._begin

    def counted(pages: LakePages, pool: ReaderPool, question: LakeQuestion) -> "lake_pages._Answers":
        nonlocal begun
        begun += 1
        return begin(pages, pool, question)

    monkeypatch.setattr(LakePages, "_begin", counted)
    pages = LakePages(lake)
    assert asked(pages, pool, question_of(log)) == [(row[0], row[1]) for row in everything(log)]
    assert begun == 1
    # Several at once, more than are kept.
    random = Random(3)
    left = {first: question_of(log, first_us=first) for first in range(7)}
    got: dict[int, list[tuple[int, int]]] = {first: [] for first in left}
    while left:
        first = random.choice(list(left))
        page = ask(pages, pool, left[first])
        got[first] += [(message.shard, message.position_us) for message in page.messages]
        left[first] = left[first].behind(page.up_to_us)
        if page.ends is not None:
            del left[first]
    assert all(found == got[0] for found in got.values())
    assert got[0] == [(row[0], row[1]) for row in everything(log)]


def test_the_lake_of_another_broker_is_refused(log: Log, lake: Path, tmp_path: Path) -> None:
    fill(log, lake)
    other = Log(tmp_path / "other", shards=3)
    try:
        other.fill(3_000)
        other_pool = ReaderPool(Path(other.path), 2)
        try:
            with pytest.raises(ForeignLakeError, match="belongs to another broker"):
                ask(LakePages(lake), other_pool, question_of(other))
        finally:
            other_pool.close()
    finally:
        other.close()


def test_a_lake_of_which_the_log_has_nothing_any_more_is_read(log: Log, lake: Path, pool: ReaderPool) -> None:
    fill(log, lake)
    right = [(row[0], row[1]) for row in everything(log)]
    while len(log.node.log.zone_logs["default"].live) > 1:
        log.drop_oldest()
    assert asked(LakePages(lake), pool, question_of(log)) == right


def test_a_lake_that_is_none_or_damaged_says_so(log: Log, lake: Path, pool: ReaderPool) -> None:
    pages = LakePages(lake)
    with pytest.raises(SettingsError, match="is no lake"):
        ask(pages, pool, question_of(log))
    fill(log, lake)
    for path in lake.rglob("day=*/**/*.parquet"):
        path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises((PermanentError, TransientError), match="cannot be read"):
        ask(pages, pool, question_of(log))


@pytest.mark.parametrize("params", [{}, {"ranges": ["1:2"]}, {"filter": ["a/#/b"], "ranges": ["0:1:2"]}, {"x": ["1"]}])
def test_a_wrong_question_is_refused(lake: Path, pool: ReaderPool, params: dict[str, list[str]]) -> None:
    with pytest.raises(QuestionError):
        LakePages(lake).answer(pool, params, lambda: False)


def test_a_lake_is_read_though_long_scans_have_all_readers(
    log: Log, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, lake)
    monkeypatch.setattr(lake_pages, "_READER_S", 0.01, raising=False)
    pool = ReaderPool(Path(log.path), 1, wait_s=0.01)
    try:
        with pool.reading():
            assert asked(LakePages(lake), pool, question_of(log))
    finally:
        pool.close()


def test_a_client_that_has_gone_ends_the_sweep(log: Log, lake: Path, pool: ReaderPool) -> None:
    fill(log, lake)
    params = {name: [value] for name, value in question_of(log).parameters()}
    with pytest.raises(ClientGoneError):
        LakePages(lake).answer(pool, params, lambda: True)


def test_a_client_that_goes_ends_the_sweep_before_a_file_is_read_to_its_end(
    log: Log, lake: Path, pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing matches, so that there is no page between."""
    log.fill(2_000)
    archive(log.path, lake, batch_rows=2_000)
    monkeypatch.setattr(lake_sweep, "_BATCH_ROWS", 10)
    looked = 0
    of = lake_sweep._Chosen.of

    def watched(chosen: "lake_sweep._Chosen", batch: Any) -> Any:
        nonlocal looked
        looked += 1
        return of(chosen, batch)

    monkeypatch.setattr(lake_sweep._Chosen, "of", watched)
    params = {name: [value] for name, value in question_of(log, "plant/none/temp").parameters()}
    with pytest.raises(ClientGoneError):
        LakePages(lake).answer(pool, params, lambda: looked >= 3)
    assert looked == 3


def test_more_replays_in_turn_than_sweeps_are_kept_leave_those_that_are_kept(
    log: Log, lake: Path, pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else none of them found its own again, and each page was a sweep."""
    monkeypatch.setattr(lake_sweep, "PAGE_MESSAGES", 120)
    fill(log, lake)
    begun = 0
    begin = LakePages._begin

    def watched(pages: LakePages, pool: ReaderPool, question: LakeQuestion) -> Any:
        nonlocal begun
        begun += 1
        return begin(pages, pool, question)

    monkeypatch.setattr(LakePages, "_begin", watched)
    pages = LakePages(lake)
    texts = ["#", "#", "+/#", "#", "+/#"]
    assert len(texts) == lake_pages._KEPT + 1
    questions = [question_of(log, text) for text in texts]
    found: list[list[tuple[int, int]]] = [[] for _text in texts]
    asked_ = 0
    while any(question.ranges for question in questions):
        for number, question in enumerate(questions):
            if question.ranges:
                asked_ += 1
                page = ask(pages, pool, question)
                found[number] += [(message.shard, message.position_us) for message in page.messages]
                questions[number] = question.behind(page.up_to_us)
                if page.ends is not None:
                    questions[number] = LakeQuestion(question.levels, {})
    assert found == [[(row[0], row[1]) for row in everything(log, text)] for text in texts]
    assert asked_ > 10 * len(texts)
    # One of them finds no place until another one is done, and begins again with each page.
    assert begun <= len(texts) + asked_ // len(texts)


def test_a_lake_is_read_without_spark() -> None:
    """The history process loads this, too."""
    program = f"import sys, {lake_pages.__name__}; print('deltalake' in sys.modules, 'pyspark' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["True", "False"]
