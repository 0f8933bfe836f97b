"""Which Holdfast the tests run on: the sources, or the compiled modules with `--compiled`.

The virtual environment holds a built wheel, so an unguarded `import holdfast` could test yesterday's code.
Hence the choice is made here, before anything is imported, passed on to child processes, and verified:

1. Without the option, holdfast comes from src and from nowhere else.
2. With it, holdfast comes from .compiled, every module that is to be compiled is a shared library, and every
   source file there equals its original in src byte for byte.

If a rule does not hold, nothing runs.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import tomllib
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from tests.schedule import PortionScheduling, longest_first, scheduling
from tests.stages import StageFiles

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
COMPILED = ROOT / ".compiled"

MANY_FILES = 100

# The machine decides how long an example takes, so no deadline. A failure prints how to repeat it.
# CI digs deeper.
settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "dev"))

# A shell that starts the tests in the background has them ignore SIGINT, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Brokers of tests have no console beside them unless a test asks for one: it costs a process, and they share a port.
os.environ.setdefault("HOLDFAST__CONSOLE__ENABLED", "false")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="run on the compiled modules in .compiled")


def pytest_configure(config: pytest.Config) -> None:
    compiled = bool(config.getoption("--compiled"))
    tree = COMPILED if compiled else SOURCES
    use(tree)
    problem = compiled_problem() if compiled else origin_problem(tree)
    if problem:
        pytest.exit(problem, returncode=pytest.ExitCode.USAGE_ERROR)
    config.pluginmanager.register(StageFiles(), "stages")


def pytest_report_header(config: pytest.Config) -> str:
    return "holdfast: compiled, from .compiled" if config.getoption("--compiled") else "holdfast: interpreted, from src"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """After chance has ordered them."""
    yield
    longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> PortionScheduling | None:
    return scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collecting makes no garbage to speak of, and looking for it takes a fifth of its time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what collecting has made out of every garbage collection: 400,000 objects that live to the end.

    A collection takes 0.2 s with them, and each log that a test closes asks for one.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A test that configures logging binds it to a stream that is closed when the test ends."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _files_are_closed() -> Iterator[None]:
    """Hundreds of open files that one test leaves behind are the failure of another one, in the same process.

    Some may stay for a while: what a session keeps for all tests, what waits for the garbage collector.
    """
    before = open_files()
    yield
    left = open_files() - before
    assert left < MANY_FILES, f"{left} files are still open"


def open_files() -> int:
    """0 where the system does not tell."""
    told = Path("/proc/self/fd")
    return len(list(told.iterdir())) if told.is_dir() else 0


def use(tree: Path) -> None:
    """Make `import holdfast` find this tree, here and in every process that a test starts."""
    sys.path.insert(0, str(tree))
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [entry for entry in inherited if entry and Path(entry).resolve() not in (SOURCES, COMPILED)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(tree), *others])


def origin_problem(tree: Path) -> str | None:
    """Why holdfast is not the one of this tree."""
    origin = importlib.import_module("holdfast").__file__
    if origin is None or not Path(origin).resolve().is_relative_to(tree):
        return f"holdfast was imported from {origin}, expected {tree}"
    return None


def compiled_problem() -> str | None:
    """Why the compiled tree is not fit to be tested."""
    note = COMPILED / "NOT_COMPILED"
    if note.exists():
        return f"nothing is compiled ({note.read_text(encoding='utf-8').strip()}); run: make compiled"
    if not COMPILED.exists():
        return "there is no .compiled; run: make compiled"
    return stale_problem() or origin_problem(COMPILED) or interpreted_problem()


def stale_problem() -> str | None:
    """Why the compiled tree was not built from the sources as they are now."""
    originals = {path.relative_to(SOURCES) for path in SOURCES.glob("*holdfast/**/*.py")}
    copies = {path.relative_to(COMPILED) for path in COMPILED.glob("*holdfast/**/*.py")}
    stale = originals ^ copies
    stale |= {path for path in originals & copies if (SOURCES / path).read_bytes() != (COMPILED / path).read_bytes()}
    if stale:
        return f".compiled is out of date ({', '.join(sorted(map(str, stale)))}); run: make compiled"
    return None


def interpreted_problem() -> str | None:
    """Which modules are interpreted although the compiled ones were asked for."""
    interpreted = [name for name in compiled_modules() if not is_shared_library(name)]
    if interpreted:
        return f"not compiled: {', '.join(interpreted)}; run: make compiled"
    return None


def compiled_modules() -> Iterator[str]:
    """Every module that setup.py compiles."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for package in project["tool"]["holdfast"]["pure-packages"]:
        for path in sorted((SOURCES / "holdfast" / package).rglob("*.py")):
            if path.name != "__init__.py":
                yield ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    for name in project["tool"]["holdfast"]["compiled-modules"]:
        if (SOURCES / "holdfast" / f"{name.replace('.', '/')}.py").exists():  # setup.py misses the others
            yield f"holdfast.{name}"


def is_shared_library(name: str) -> bool:
    """Whether a module really comes out of a shared library: what was loaded counts, not what lies there."""
    origin = importlib.import_module(name).__file__ or ""
    return origin.endswith(tuple(EXTENSION_SUFFIXES))
