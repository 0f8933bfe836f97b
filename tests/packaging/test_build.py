"""What a wheel contains: compiled modules where a compiler works, plain Python in every other case."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from scripts.compiled_tree import acceptable

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
STEERING = ("HOLDFAST_BUILD", "CC", "CFLAGS", "LDFLAGS", "LDSHARED", "PYTHONPATH")
WANTS_PURE = os.environ.get("HOLDFAST_BUILD") == "pure"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a build reads, because a build writes into its source folder."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return folder


def keep_one_module(checkout: Path) -> None:
    """Leave little to compile, where the outcome matters and the content does not."""
    around = {name.split(".")[0] for name in PROJECT["tool"]["holdfast"]["compiled-modules"]}
    for package in (*PROJECT["tool"]["holdfast"]["pure-packages"], *around):
        shutil.rmtree(checkout / "src/holdfast" / package, ignore_errors=True)
    add_module(checkout, "model", "def twice(number: int) -> int:\n    return 2 * number\n")


def add_module(checkout: Path, package: str, source: str) -> None:
    folder = checkout / "src/holdfast" / package
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").touch()
    (folder / "planted.py").write_text(source, encoding="utf-8")


def build(checkout: Path, **steering: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel by the tools of this environment, offline, steered by nothing but the arguments."""
    environment = {name: value for name, value in os.environ.items() if name not in STEERING} | steering
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--wheel-dir", "wheels", "."]
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def wheel_of(checkout: Path) -> Path:
    (wheel,) = (checkout / "wheels").glob("*.whl")
    return wheel


def libraries(wheel: Path) -> set[str]:
    """The shared libraries in a wheel, named as modules."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return {name.split(".", 1)[0].replace("/", ".") for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))}


def outcome(checkout: Path) -> str:
    return (checkout / "build/outcome").read_text(encoding="utf-8").strip()


def compiled_modules(checkout: Path) -> set[str]:
    packages = PROJECT["tool"]["holdfast"]["pure-packages"]
    source = checkout / "src"
    paths = [path for name in packages for path in (source / "holdfast" / name).rglob("*.py")]
    pure = {".".join(path.relative_to(source).with_suffix("").parts) for path in paths if path.name != "__init__.py"}
    return pure | {f"holdfast.{name}" for name in PROJECT["tool"]["holdfast"]["compiled-modules"]}


@pytest.mark.parametrize(
    ("steering", "reason"),
    [
        ({"HOLDFAST_BUILD": "pure"}, "requested: HOLDFAST_BUILD=pure"),
        ({"CC": "/bin/false"}, "no-compiler: "),
        ({"CC": "/nowhere/cc"}, "no-compiler: "),
    ],
    ids=lambda value: str(value),
)
def test_without_a_compiler_the_wheel_is_plain_python(checkout: Path, steering: dict[str, str], reason: str) -> None:
    result = build(checkout, **steering)

    assert result.returncode == 0, result.stderr
    assert outcome(checkout).startswith(reason)
    assert libraries(wheel_of(checkout)) == set()
    assert wheel_of(checkout).name.endswith("-py3-none-any.whl")


def test_with_a_compiler_the_wheel_holds_a_library_for_every_pure_module() -> None:
    """`make` has built this wheel just before, and another would take minutes."""
    (wheel,) = (ROOT / ".build/wheel").glob("*.whl")

    made = outcome(ROOT)
    if made.startswith("no-compiler") and (acceptable("no-compiler", os.environ) or WANTS_PURE):
        pytest.skip("no C compiler; as root: apt-get install gcc python3-dev")
    assert made == "compiled"
    assert libraries(wheel) == compiled_modules(ROOT) | {"holdfast__mypyc"}


def test_with_a_compiler_the_wheel_is_compiled(checkout: Path) -> None:
    keep_one_module(checkout)

    result = build(checkout)

    assert result.returncode == 0, result.stderr
    if outcome(checkout).startswith("no-compiler") and (acceptable("no-compiler", os.environ) or WANTS_PURE):
        pytest.skip("no C compiler; as root: apt-get install gcc python3-dev")
    assert outcome(checkout) == "compiled"
    assert "holdfast.model.planted" in libraries(wheel_of(checkout))


def test_sources_that_mypyc_refuses_fall_back_whole(checkout: Path) -> None:
    keep_one_module(checkout)
    add_module(checkout, "topics", "wrong: int = 'text'\n")

    result = build(checkout)

    assert result.returncode == 0, result.stderr
    assert_plain(checkout, {"holdfast/model/planted.py", "holdfast/topics/planted.py"})


def test_a_compiler_that_fails_midway_falls_back_whole(checkout: Path, tmp_path: Path) -> None:
    keep_one_module(checkout)
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\ncase "$*" in *holdfast*) exit 1 ;; esac\nexec cc "$@"\n', encoding="ascii")
    compiler.chmod(0o755)

    result = build(checkout, CC=str(compiler))

    assert result.returncode == 0, result.stderr
    assert_plain(checkout, {"holdfast/model/planted.py"})


def assert_plain(checkout: Path, modules: set[str]) -> None:
    assert outcome(checkout).startswith(("failed: ", "no-compiler: "))
    assert libraries(wheel_of(checkout)) == set()
    assert wheel_of(checkout).name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel_of(checkout)) as archive:
        assert modules <= set(archive.namelist())


def test_a_demand_for_compiled_modules_fails_without_a_compiler(checkout: Path) -> None:
    result = build(checkout, HOLDFAST_BUILD="compiled", CC="/bin/false")

    assert result.returncode != 0
    assert "no working C compiler" in result.stdout + result.stderr


def test_a_deleted_module_is_gone_from_the_next_wheel(checkout: Path) -> None:
    add_module(checkout, "model", "value: int = 1\n")
    assert build(checkout, HOLDFAST_BUILD="pure").returncode == 0
    (checkout / "src/holdfast/model/planted.py").unlink()

    assert build(checkout, HOLDFAST_BUILD="pure").returncode == 0

    with zipfile.ZipFile(wheel_of(checkout)) as archive:
        assert "holdfast/model/planted.py" not in archive.namelist()


def test_an_editable_install_leaves_no_library_in_the_sources(checkout: Path, tmp_path: Path) -> None:
    keep_one_module(checkout)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(tmp_path / "target"), "--editable", "."]

    result = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert [path for path in checkout.rglob("*") if path.name.endswith(tuple(EXTENSION_SUFFIXES))] == []
