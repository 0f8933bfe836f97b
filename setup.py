"""Build Holdfast: the pure packages, and some modules around them, compiled by mypyc where that works.

HOLDFAST_BUILD chooses:

    auto      compile if a C compiler works, else install plain Python and say so (the default)
    pure      plain Python
    compiled  compile, or fail

Rules:

1. Only a wheel is compiled. An editable install stays interpreted, because a shared library beside an
   edited `.py` would win over it in silence.
2. All or nothing. The modules of the group are thin shims over one library and cannot be imported without
   it, so a compilation that fails is followed by a second, plain build from an empty folder.
3. `__init__.py` files stay Python: they hold no hot code, and tools read them.
4. How the build ended is written to `build/outcome`, for the recipes that must know.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

PROJECT: dict[str, Any] = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
BUILD = Path("build")
CHOICES = ("auto", "pure", "compiled")

# The header proves that Python's development files are there, the link proves the rest.
PROBE = "#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n"


class PlainPythonError(Exception):
    """Why this build cannot, or must not, be compiled. `kind` is the first word of `build/outcome`."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = " ".join(reason.split())


def choice() -> str:
    """The wish of the person who builds."""
    wish = os.environ.get("HOLDFAST_BUILD") or "auto"
    if wish not in CHOICES:
        raise SystemExit(f"HOLDFAST_BUILD={wish!r}: expected one of {', '.join(CHOICES)}")
    return wish


def mypy_pin() -> str:
    """The exact requirement on the code generator, `mypy==…`, as pyproject.toml states it once."""
    requirements: list[Any] = PROJECT["dependency-groups"]["build"]
    return next(line for line in requirements if isinstance(line, str) and line.startswith("mypy=="))


def compiled_sources() -> list[str]:
    """Every module to compile, of those pure packages and modules that exist."""
    packages: list[str] = PROJECT["tool"]["holdfast"]["pure-packages"]
    modules: list[str] = PROJECT["tool"]["holdfast"]["compiled-modules"]
    paths = [path for name in packages for path in Path("src/holdfast", name).rglob("*.py")]
    paths += [path for name in modules if (path := Path("src/holdfast", *name.split(".")).with_suffix(".py")).exists()]
    return sorted(path.as_posix() for path in paths if path.name != "__init__.py")


def brief(error: BaseException) -> str:
    """A failed command repeats its whole command line; the program and its status say enough."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, subprocess.CalledProcessError):
            return f"{cause.cmd[0]} failed with status {cause.returncode}"
        cause = cause.__cause__ or cause.__context__
    return str(error)


def require_compiler() -> None:
    """Build an extension by the same command that will build ours: the only honest test of a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE, encoding="ascii")
        extension = Extension("probe", [str(source)])
        command = build_ext(Distribution({"name": "probe", "ext_modules": [extension]}))
        command.build_lib = command.build_temp = folder
        try:
            command.ensure_finalized()
            command.run()
        except Exception as error:  # each platform's compiler class fails in its own way
            raise PlainPythonError("no-compiler", f"no working C compiler: {brief(error)}") from error


def require_mypy() -> None:
    """Without build isolation the environment decides which mypy there is; another one is another build."""
    wanted = mypy_pin().partition("==")[2]
    try:
        found = metadata.version("mypy")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != wanted:
        raise PlainPythonError("failed", f"compiling needs mypy {wanted}, found {found}")


def generate_c() -> list[Extension]:
    """Let mypyc write the C sources of the whole group."""
    from mypyc.build import mypycify  # there only when this build compiles

    try:
        # Speed is the point; the mypy settings come from pyproject.toml.
        extensions: list[Extension] = mypycify(
            compiled_sources(),
            group_name="holdfast",
            opt_level="3",
            debug_level="0",
            target_dir=str(BUILD / "mypyc"),
        )
    except SystemExit as error:
        raise PlainPythonError("failed", "mypyc refused the sources") from error
    for extension in extensions:
        # Python's own flags ask for warnings, of which generated C has thousands. Looking for them takes the compiler
        # as long as everything else it does.
        extension.extra_compile_args.append("-Wno-all")
    return extensions


def start_afresh() -> None:
    """Setuptools copies whatever lies in its build folder into the wheel, deleted modules included."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir()


def compile_wheel(wish: str) -> None:
    """Build the compiled wheel, or raise PlainPythonError."""
    if wish == "pure":
        raise PlainPythonError("requested", "HOLDFAST_BUILD=pure")
    if not compiled_sources():
        raise PlainPythonError("failed", "there is no module to compile")
    require_compiler()
    require_mypy()
    extensions = generate_c()
    try:
        setup(ext_modules=extensions)
    except SystemExit as error:
        raise PlainPythonError("failed", f"compilation failed: {brief(error)}") from error


def announce(reason: str) -> None:
    """Tell the person at the terminal, because pip hides what a successful build prints."""
    lines = (
        "holdfast: building PLAIN PYTHON, which is several times slower per message.",
        f"  {reason}",
        "  HOLDFAST_BUILD=compiled makes this an error, HOLDFAST_BUILD=pure silences it.",
    )
    text = "\n".join(("", "=" * 78, *lines, "=" * 78, ""))
    print(text, file=sys.stderr, flush=True)
    with suppress(OSError), open("/dev/tty", "w", encoding="utf-8") as terminal:
        print(text, file=terminal)


def build_wheel(wish: str) -> None:
    """Compiled if wished and possible, else plain, and leave a note of which it became."""
    start_afresh()
    try:
        compile_wheel(wish)
        outcome = "compiled"
    except PlainPythonError as obstacle:
        if wish == "compiled":
            raise SystemExit(f"HOLDFAST_BUILD=compiled: {obstacle.reason}") from obstacle
        if wish == "auto":
            announce(obstacle.reason)
        start_afresh()
        setup()
        outcome = f"{obstacle.kind}: {obstacle.reason}"
    (BUILD / "outcome").write_text(outcome + "\n", encoding="utf-8")


def extra_requirements(wish: str) -> list[str]:
    """What an isolated build must install first: mypy, unless it would be installed for nothing."""
    if wish == "pure":
        return []
    try:
        require_compiler()
    except PlainPythonError:
        return []
    return [mypy_pin()]


def main() -> None:
    """Serve the command by which the build backend runs this file."""
    if "bdist_wheel" in sys.argv:
        build_wheel(choice())
    elif "egg_info" in sys.argv:
        # The backend runs egg_info to learn what a build requires, and reports `setup_requires` to pip.
        setup(setup_requires=extra_requirements(choice()))
    else:
        setup()


main()
