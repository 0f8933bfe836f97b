"""What `session` refuses about Spark Connect, before it looks for a server; and what it does when Java dies."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from holdfast.model.errors import SettingsError
from holdfast.pipeline.spark import session as module
from holdfast.pipeline.spark.session import session, start_session
from holdfast.pipeline.spark.start_cache import StartFiles

SERVER = "sc://127.0.0.1:1"


def test_a_server_has_an_address_of_spark_connect() -> None:
    with pytest.raises(SettingsError, match=r"'spark://host:7077' is no server of Spark Connect.*sc://HOST:PORT"):
        session(remote="spark://host:7077")


@pytest.mark.parametrize("given", [{"master": "local[2]"}, {"settings": {"spark.master": "local[2]"}}])
def test_the_master_of_a_server_is_its_own(given: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"master 'local\[2\]' does not go with remote"):
        session(remote=SERVER, **given)  # type: ignore[arg-type]


def test_packages_that_are_missing_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_installed", lambda name: name not in ("grpc", "google.rpc"))

    with pytest.raises(SettingsError, match=r"needs grpcio, googleapis-common-protos,.*holdfast\[spark,connect\]"):
        session(remote=SERVER)


def test_packages_are_found_in_packages_that_are_not_there() -> None:
    assert module._is_installed("json.decoder")
    assert not module._is_installed("no_such_package.module")


# ---- a Java that dies


class Build:
    """In place of Spark's own start: it fails with each of these errors, and then is there."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.options: list[str] = []

    def __call__(self, java_options: str) -> str:
        self.options.append(java_options)
        if self._errors:
            raise self._errors.pop(0)
        return "a session"


def exited() -> PySparkRuntimeError:
    return PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


@pytest.fixture
def files(tmp_path: Path) -> StartFiles:
    classes = tmp_path / "classes.jsa"
    classes.touch()
    return StartFiles(tmp_path / "home", (classes,))


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> "Iterator[SimpleNamespace]":
    """As PySpark keeps it for a Java that was started, which is another program here."""
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=program, shutdown=lambda: None)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_jvm", object())
    yield gateway
    program.kill()
    program.communicate()


def test_a_java_that_dies_with_the_archive_is_started_without_and_the_archive_is_set_aside(files: StartFiles) -> None:
    build = Build(exited())

    assert start_session(build, files) == "a session"  # type: ignore[arg-type, comparison-overlap]

    assert build.options == [files.java_options, ""]
    assert not files.classes[0].exists()


def test_a_java_that_dies_without_the_archive_too_keeps_it(files: StartFiles) -> None:
    first = exited()

    with pytest.raises(PySparkRuntimeError) as raised:
        start_session(Build(first, exited()), files)  # type: ignore[arg-type]

    assert raised.value is first
    assert files.classes[0].exists()


def test_a_java_that_dies_once_it_was_asked_something_is_forgotten(files: StartFiles, gateway: SimpleNamespace) -> None:
    build = Build(Py4JNetworkError("Answer from Java side is empty"))
    gateway.proc.kill()

    assert start_session(build, files) == "a session"  # type: ignore[arg-type, comparison-overlap]

    assert SparkContext._gateway is None
    assert SparkContext._jvm is None
    assert not files.classes[0].exists()


def test_an_error_of_a_java_that_lives_is_the_callers(
    files: StartFiles, gateway: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DEATH_S", 0)
    build = Build(exited())

    with pytest.raises(PySparkRuntimeError):
        start_session(build, files)  # type: ignore[arg-type]

    assert build.options == [files.java_options]
    assert SparkContext._gateway is gateway
    assert files.classes[0].exists()
