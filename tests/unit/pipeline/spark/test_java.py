"""The Java that Spark gets: the first that is new enough, else the bundled one, else an error with what was seen."""

import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from holdfast.model.errors import SettingsError
from holdfast.pipeline.spark import java
from holdfast.pipeline.spark.java import bundled_java, java_home, java_version, wrap_java


def fake_java(home: Path, version: str | None) -> Path:
    """A Java that knows its version and nothing else; None is one that does not even run."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    shown = "exit 1" if version is None else f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"
    program.write_text(f"#!/bin/sh\n{shown}\n", encoding="utf-8")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), (None, None)])
def test_the_version_is_asked_of_java_itself(tmp_path: Path, version: str | None, major: int | None) -> None:
    assert java_version(fake_java(tmp_path, version)) == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named, other = fake_java(tmp_path / "named", "21.0.1"), fake_java(tmp_path / "other", "17.0.1")

    found = java_home({"JAVA_HOME": str(named), "PATH": str(other / "bin"), "XDG_CACHE_HOME": str(tmp_path)})

    assert java_version(found) == 21


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_a_java_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, version: str | None) -> None:
    named, other = fake_java(tmp_path / "named", version), fake_java(tmp_path / "other", "17.0.1")

    found = java_home({"JAVA_HOME": str(named), "PATH": str(other / "bin"), "XDG_CACHE_HOME": str(tmp_path)})

    assert java_version(found) == 17


def test_every_java_runs_without_the_module_that_it_would_warn_of(tmp_path: Path) -> None:
    """A warning of Java was the first thing that a Spark query printed."""
    named = fake_java(tmp_path / "named", "17.0.1")
    environment = {"JAVA_HOME": str(named), "PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    home = java_home(environment)
    (named / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-cp", "x"]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "<-cp><x>"


def test_a_second_session_takes_the_wrapper_of_the_first(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "17.0.1")
    environment = {"JAVA_HOME": str(named), "PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    first = java_home(environment)

    assert java_home({**environment, "JAVA_HOME": str(first)}) == first


def test_where_there_is_no_java_the_bundled_one_is_wrapped(tmp_path: Path) -> None:
    home = java_home({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})

    assert home == tmp_path / "holdfast" / "java"
    assert java_version(home) == java_version(bundled_java() or tmp_path)


def test_the_wrapper_drops_one_option_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "17")
    (real / "bin" / "java").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "$HOME*", "--add-modules=other"]

    program = wrap_java(real, tmp_path / "cache") / "bin" / "java"
    shown = subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

    assert shown == "<-Xmx1g><two words><><$HOME*><--add-modules=other>"


def test_a_wrapper_of_another_java_is_replaced(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "17"), fake_java(tmp_path / "new", "21")
    wrap_java(old, tmp_path / "cache")

    assert java_version(wrap_java(new, tmp_path / "cache")) == 21


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    home = wrap_java(fake_java(tmp_path / "real", "17"), tmp_path / "file" / "cache")

    assert java_version(home) == 17


def test_a_wrapper_is_not_run_from_where_other_users_may_replace_it(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "17.0.1")
    environment = {"JAVA_HOME": str(named), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "caches")}
    shared = tmp_path / "caches" / "holdfast" / "java"
    shared.mkdir(parents=True)
    shared.chmod(0o777)

    home = java_home(environment)

    assert not home.is_relative_to(tmp_path / "caches")
    assert java_version(home) == 17


def test_without_a_home_the_wrapper_is_in_a_folder_that_no_one_else_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    named = fake_java(tmp_path / "named", "17.0.1")

    home = java_home({"JAVA_HOME": str(named), "PATH": ""})

    assert home.parent == tmp_path
    assert home.name.startswith("holdfast-java-")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not (tmp_path / ".cache").exists()


def test_without_any_java_the_error_names_all_that_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    old = fake_java(tmp_path / "old", "11.0.2")

    with pytest.raises(SettingsError, match=rf"needs Java 17 or newer; JAVA_HOME \({old}\) is Java 11: install"):
        java_home({"JAVA_HOME": str(old), "PATH": ""})
