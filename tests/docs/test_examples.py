"""Examples in the README and in the guides: what a reader may paste really runs.

    ```python    is run in a process of its own; with a test function in it, by pytest with Holdfast's plugin
    ```toml      is loaded as a settings file, with every rule between keys
    ```acl       is read as an access file

Shell blocks are not run here: `test_shell_examples.py` runs those that can be.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.broker.access.rules import Rules
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
#: Run by tests/spark, with the Spark that is there.
ELSEWHERE = [("python", "docs/guide/spark.md"), ("python", "docs/guide/spark-load.md")]
#: Seconds that an example may take; machines that test are busy.
DEADLINE_S = 60.0

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A fenced block and where it stands."""

    page: str
    line: int
    language: str
    text: str


def examples_in(page: Path) -> list[Example]:
    content = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    return [
        Example(name, content.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _FENCE.finditer(content)
    ]


EXAMPLES = [example for page in PAGES for example in examples_in(page)]


def in_language(language: str) -> list[object]:
    return [
        pytest.param(example, id=f"{example.page}:{example.line}")
        for example in EXAMPLES
        if example.language == language and (language, example.page) not in ELSEWHERE
    ]


def run(example: Example, folder: Path) -> "subprocess.CompletedProcess[str]":
    if "\ndef test_" not in example.text:
        script = folder / "example.py"
        command = [sys.executable, "-W", "error", str(script)]
    else:
        script = folder / "test_example.py"
        # Autoload is off, so that the plugin is the one under test and not that of an installed wheel.
        plugins = ["-p", "holdfast.pytest_plugin", "-p", "no:cacheprovider"]
        command = [sys.executable, "-W", "error", "-m", "pytest", "-q", *plugins, str(script)]
    script.write_text(example.text, encoding="utf-8")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def named_files(settings: Settings) -> list[Path]:
    paths = [settings.security.password_file, settings.security.acl_file, settings.cluster.password_file]
    paths += [settings.history.token_file, settings.history.certificate, settings.history.key]
    paths += [settings.cluster.tls_certificate, settings.cluster.tls_key, settings.cluster.tls_ca]
    console = settings.console
    paths += [console.user_file, console.token_file, console.certificate, console.key]
    for listener in settings.listeners.values():
        paths += [listener.certificate, listener.key, listener.client_ca]
    return [path for path in paths if path is not None]


def test_every_language_that_is_checked_occurs() -> None:
    assert {"python", "toml", "acl"} <= {example.language for example in EXAMPLES}


@pytest.mark.parametrize("example", in_language("python"))
def test_a_python_example_runs(example: Example, tmp_path: Path) -> None:
    done = run(example, tmp_path)

    assert done.returncode == 0, f"{example.page}:{example.line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("example", in_language("toml"))
def test_a_settings_example_is_accepted(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = Flags(config=tmp_path / "holdfast.toml")
    (tmp_path / "holdfast.toml").write_text(example.text, encoding="utf-8")
    for path in named_files(load(flags, {}, rules=False)):
        path.touch()  # rules ask whether a file is there and can be read

    settings = load(flags, {})

    assert settings.sources, f"{example.page}:{example.line} sets nothing"


@pytest.mark.parametrize("example", in_language("acl"))
def test_an_access_file_example_is_accepted(example: Example) -> None:
    rules = Rules.parse(example.text.split("\n"), f"{example.page}:{example.line}")

    assert rules.for_client("sensor-7", "alice").may_publish(b"devices/sensor-7/up")
