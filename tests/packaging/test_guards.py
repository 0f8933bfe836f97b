"""A test run refuses to start on anything but the Holdfast that it was asked to test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = "holdfast/model/words.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one pure module, one test, and the real configuration and guards."""
    for name in ("pyproject.toml", "tests/conftest.py", "tests/schedule.py", "tests/stages.py"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, target)
    write_package(tmp_path / "src")
    test = "import holdfast.model.words\n\n\ndef test_import() -> None:\n    assert holdfast.model.words.LIMIT == 1\n"
    (tmp_path / "tests/test_words.py").write_text(test, encoding="utf-8")
    return tmp_path


def write_package(tree: Path, limit: int = 1) -> None:
    module = tree / MODULE
    module.parent.mkdir(parents=True)
    for package in (tree / "holdfast", module.parent):
        (package / "__init__.py").touch()
    module.write_text(f"LIMIT = {limit}\n", encoding="utf-8")


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def assert_refused(result: subprocess.CompletedProcess[str], reason: str) -> None:
    assert result.returncode == pytest.ExitCode.USAGE_ERROR, result.stdout + result.stderr
    assert reason in result.stdout + result.stderr
    assert "passed" not in result.stdout


def test_a_plain_run_tests_the_sources(project: Path) -> None:
    write_package(project / ".compiled", limit=2)

    result = run(project)

    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_a_plain_run_refuses_a_package_from_elsewhere(project: Path) -> None:
    shutil.rmtree(project / "src")
    write_package(project)

    assert_refused(run(project), "holdfast was imported from")


def test_a_compiled_run_refuses_without_a_compiled_tree(project: Path) -> None:
    assert_refused(run(project, "--compiled"), "there is no .compiled")


def test_a_compiled_run_repeats_why_nothing_is_compiled(project: Path) -> None:
    note = project / ".compiled/NOT_COMPILED"
    note.parent.mkdir()
    note.write_text("no-compiler: none here\n", encoding="utf-8")

    assert_refused(run(project, "--compiled"), "none here")


def test_a_compiled_run_refuses_sources_that_changed_since(project: Path) -> None:
    write_package(project / ".compiled", limit=2)

    assert_refused(run(project, "--compiled"), f"out of date ({MODULE})")


def test_a_compiled_run_refuses_a_module_that_is_missing(project: Path) -> None:
    write_package(project / ".compiled")
    (project / "src/holdfast/model/newer.py").touch()

    assert_refused(run(project, "--compiled"), "out of date (holdfast/model/newer.py)")


def test_a_compiled_run_refuses_an_interpreted_pure_module(project: Path) -> None:
    write_package(project / ".compiled")

    assert_refused(run(project, "--compiled"), "not compiled: holdfast.model.words")
