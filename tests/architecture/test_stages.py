"""Which files a stage leaves out, and that a test whose marks are given in another way ends the run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.stages import ROOT, STAGE_MARKS, Marks, StageFiles, marks_of

QUICK = "not slow"
COMPILED = "compiled or seeds"
SLOW = "slow and not spark and not browser and not seeds"
SPARK = "slow and spark and not browser"
STAGES = (QUICK, COMPILED, SLOW, SPARK, "browser")


def marks(certain: str = "", unsure: str = "") -> Marks:
    return Marks(frozenset(certain.split()), frozenset(f"{certain} {unsure}".split()))


def stages(found: Marks) -> list[str]:
    return [stage for stage in STAGES if found.may_fit(stage)]


def write(path: Path, text: str) -> Marks:
    path.write_text(text, encoding="utf-8")
    return marks_of(path)


def test_a_file_is_read_by_the_stages_that_its_marks_allow() -> None:
    assert stages(marks()) == [QUICK]
    assert stages(marks(unsure="slow")) == [QUICK, SLOW]
    assert stages(marks("slow")) == [SLOW]
    assert stages(marks("slow", "spark")) == [SLOW, SPARK]
    assert stages(marks("slow spark", "browser")) == [SPARK, "browser"]
    assert stages(marks("slow browser")) == ["browser"]
    assert stages(marks("compiled")) == [QUICK, COMPILED]
    assert stages(marks(unsure="slow seeds")) == [QUICK, COMPILED, SLOW]


def test_some_stage_reads_a_file_whatever_its_marks() -> None:
    for number in range(1 << len(STAGE_MARKS)):
        certain = " ".join(name for bit, name in enumerate(sorted(STAGE_MARKS)) if number >> bit & 1)
        assert stages(marks(certain)), certain


@pytest.mark.parametrize(
    "expression", ["packaging", "slow or packaging", "timeout(300)", "slow and (", "not slow(x=1)"]
)
def test_an_expression_about_anything_else_reads_every_file(expression: str) -> None:
    assert marks("slow").may_fit(expression)
    assert marks().may_fit(expression)


def test_the_stages_of_the_makefile_are_those_of_this_test() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {quoted or word for quoted, word in re.findall(r' -m (?:"([^"]+)"|(\w+)) --junitxml', makefile)}

    assert named == {*STAGES, "seeds"}


def test_the_marks_of_a_file_are_those_that_it_names(tmp_path: Path) -> None:
    one = write(tmp_path / "test_one.py", "pytestmark = pytest.mark.compiled\n\n@pytest.mark.slow\ndef test(): ...\n")
    assert one == marks("compiled", "slow")
    many = write(tmp_path / "test_many.py", "pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.timeout(9),\n]\n")
    assert many == marks("slow")
    assert write(tmp_path / "test_inner.py", "class TestA:\n    pytestmark = pytest.mark.slow\n") == marks("", "slow")
    assert write(tmp_path / "test_none.py", "def test(): ...\n") == marks()


def test_a_mark_may_come_from_a_module_that_a_file_imports(tmp_path: Path) -> None:
    direct = write(tmp_path / "test_direct.py", "from tests.conformance.ordered_logs import PARAMETERS\n")

    assert direct == marks("", "slow")


def test_a_mark_may_come_from_the_folder_of_a_file() -> None:
    spark = [path for path in (ROOT / "tests/spark").glob("test_*.py") if "spark" in marks_of(path).possible]

    assert spark == list((ROOT / "tests/spark").glob("test_*.py"))
    assert len(spark) > 10


class Item:
    """A test by shape."""

    def __init__(self, path: Path, *names: str) -> None:
        self.path = path
        self.nodeid = f"{path.name}::test"
        self._marks = [pytest.Mark(name, (), {}, _ispytest=True) for name in names]

    def iter_markers(self) -> list[pytest.Mark]:
        return self._marks


def test_a_test_whose_file_does_not_name_its_mark_ends_the_run(tmp_path: Path) -> None:
    file = tmp_path / "test_one.py"
    write(file, "pytestmark = pytest.mark.compiled\n")

    StageFiles().pytest_collection_modifyitems([Item(file, "compiled", "timeout")])  # type: ignore[list-item]
    with pytest.raises(pytest.UsageError, match=r"test_one.py::test has the mark slow, which its file does not name"):
        StageFiles().pytest_collection_modifyitems([Item(file, "compiled", "slow")])  # type: ignore[list-item]
    with pytest.raises(pytest.UsageError, match=r"test_one.py::test lacks the mark compiled, which its file gives"):
        StageFiles().pytest_collection_modifyitems([Item(file)])  # type: ignore[list-item]
