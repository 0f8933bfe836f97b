"""The table of the sources' structure counts what its rows say, in a folder and in a revision."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import structure
from scripts.source_tree import Import, SourceTree, read_folder, read_revision


def tree(**files: str) -> SourceTree:
    """A tree below src/holdfast; two underscores in a name stand for a slash."""
    return SourceTree({f"src/holdfast/{name.replace('__', '/')}.py": text for name, text in files.items()})


def test_imports_are_resolved_to_modules_of_the_tree() -> None:
    found = tree(
        wire__codec="import os\nfrom holdfast.wire import frames\n",
        wire__frames="from holdfast.wire.codec import decode\n",
        node="def run():\n    import holdfast.wire.codec\n",
    )

    assert found.imports == [
        Import("holdfast.node", "holdfast.wire.codec", 2, type_only=False),
        Import("holdfast.wire.codec", "holdfast.wire.frames", 2, type_only=False),
        Import("holdfast.wire.frames", "holdfast.wire.codec", 1, type_only=False),
    ]


def test_lines_of_code_leave_out_blank_lines_comments_and_docstrings() -> None:
    found = tree(wire='"""What it is.\n\nIts rules.\n"""\n\n# why\nLIMIT = (\n    1\n)  # bytes\n')

    assert structure.lines(found) == {"src/holdfast/wire.py": 9}
    assert structure.code_lines(found) == {"src/holdfast/wire.py": 3}


def test_a_folder_is_flat_above_twenty_modules() -> None:
    twenty = {f"wire__part{number}": "" for number in range(20)}

    assert structure.flat_folders(tree(**twenty)) == []
    assert structure.flat_folders(tree(**twenty, wire__more="")) == ["src/holdfast/wire: 21 modules"]


def test_a_small_module_counts_if_one_module_imports_it() -> None:
    user = "import holdfast.small\nimport holdfast.large\n"
    files = {"small": "A = 1\n", "large": "A = 1\n" * 60, "user": user}

    assert structure.small_modules(tree(**files)) == [
        "src/holdfast/small.py: 1 lines, imported by holdfast.user",
    ]
    assert structure.small_modules(tree(**files, other=user)) == []


def test_a_name_counts_if_two_public_classes_have_it() -> None:
    found = tree(a="class Plan: ...\nclass _Own: ...\n", b="class _Own: ...\n\nclass Plan: ...\n")

    assert structure.same_names(found) == ["Plan: src/holdfast/a.py:1, src/holdfast/b.py:3"]


def test_parameters_are_counted_without_self() -> None:
    eight = ", ".join("abcdefgh")
    found = tree(a=f"class A:\n    def f(self, {eight}): ...\n\nasync def g({eight}, *, i): ...\n")

    assert structure.long_signatures(found) == ["src/holdfast/a.py:4 g: 9 parameters"]


def test_a_class_is_large_above_twenty_methods() -> None:
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(21))

    assert structure.large_classes(tree(a=f"class A:\n{methods}")) == ["src/holdfast/a.py:1 A: 21 methods"]


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(q, LogQueue)",
        "isinstance(q, int | queues.LogQueue)",
        "isinstance(q, (int, LogQueue))",
        "[1 for _ in q if isinstance(q, LogQueue)]",
    ],
)
def test_asking_for_an_implementation_counts_outside_of_assembly(question: str) -> None:
    files = {
        "contract": "class Queue(Protocol): ...\n",
        "queues": "class OwnQueue(Queue): ...\nclass LogQueue(OwnQueue): ...\nclass Other: ...\n",
        "node__assembly": f"{question}\n",
        "broker": f"isinstance(q, Other)\n{question}\n",
    }

    assert structure.contract_checks(tree(**files)) == ["src/holdfast/broker.py:2 LogQueue"]


def test_a_match_on_an_implementation_is_a_question_too() -> None:
    question = "match q:\n    case LogQueue():\n        pass\n"

    found = structure.contract_checks(tree(a="class LogQueue(Protocol): ...\nclass B(LogQueue): ...\n", b=question))
    assert found == []
    found = structure.contract_checks(tree(a="class Q(ABC): ...\nclass LogQueue(Q): ...\n", b=question))
    assert found == ["src/holdfast/b.py:2 LogQueue"]


def test_an_import_for_types_counts_if_it_closes_a_circle_within_a_package() -> None:
    under = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from holdfast.{} import A\n"
    found = tree(
        ring__first="import holdfast.ring.parts.second\n",
        ring__parts__second="import holdfast.ring.third\n" + under.format("ring.fourth"),
        ring__third=under.format("ring.first"),
        ring__fourth=under.format("other"),
        other="import holdfast.ring.fourth\n",
    )

    assert structure.back_imports(found) == ["src/holdfast/ring/third.py:3 holdfast.ring.first"]


def test_a_gerund_is_no_name_for_a_module() -> None:
    assert structure.gerunds(tree(making="", durable__ring="", spark="")) == ["src/holdfast/making.py"]


def test_a_unit_test_lies_where_its_module_lies() -> None:
    files = dict.fromkeys(
        [
            "src/holdfast/wire/__init__.py",
            "src/holdfast/wire/codec.py",
            "src/holdfast/wire/frames.py",
            "tests/unit/wire/test_codec.py",
            "tests/unit/wire/test_codec_encoding.py",
            "tests/unit/wire/test_codecs.py",
            "tests/unit/wire/test_strictness.py",
            "tests/unit/wire/world.py",
            "tests/mqtt/test_connect.py",
        ],
        "",
    )
    found = SourceTree(files)

    assert structure.tested_modules(found) == ["src/holdfast/wire/codec.py"]
    assert structure.untested_modules(found) == ["src/holdfast/wire/frames.py: no tests/unit/wire/test_frames.py"]
    assert structure.stray_tests(found) == ["tests/unit/wire/test_codecs.py", "tests/unit/wire/test_strictness.py"]


def test_a_revision_is_read_without_a_checkout_and_shown_beside_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "src/holdfast/making.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").touch()
    module.write_text("A = 1\n", encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    module.rename(module.with_name("build.py"))

    assert list(read_revision("HEAD", tmp_path).modules) == ["holdfast.making"]
    assert list(read_folder(tmp_path).modules) == ["holdfast.build"]

    assert structure.main(["--before", "HEAD"], tmp_path) == 0
    rows = {line.split()[0]: line.split()[-2:] for line in capsys.readouterr().out.splitlines()}
    assert rows["row"] == ["before", "now"]
    assert rows["lines"] == ["1", "1"]
    assert rows["gerunds"] == ["1", "0"]
    assert structure.main(["HEAD", "--list", "gerunds"], tmp_path) == 0
    assert capsys.readouterr().out == "src/holdfast/making.py\n"
