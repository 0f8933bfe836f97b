"""The import contracts of pyproject.toml catch what they are there to catch.

A contract that matches nothing always passes, so each one is shown a violation, planted in a copy of the
package, and has to name it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: dict[str, dict[str, Any]] = {entry["id"]: entry for entry in PROJECT["tool"]["importlinter"]["contracts"]}


@dataclass(frozen=True)
class Violation:
    """A module, planted under holdfast, that breaks one contract; `target` is planted for it to import."""

    contract: str
    module: str
    line: str
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.contract}: {self.module}: {self.line}"


VIOLATIONS = [
    Violation("layers", "utils", ""),
    Violation("layers", "model.planted", "import holdfast.topics"),
    Violation("layers", "wire.planted", "import holdfast.broker"),
    Violation("layers", "broker.planted", "from holdfast import server"),
    Violation("layers", "node.planted", "import holdfast.cli.main"),
    Violation("layers", "records.planted", "import holdfast.wire"),
    Violation("layers", "server.planted", "import holdfast.storage.rocks", target="storage.rocks"),
    Violation("layers", "storage.planted", "import holdfast.cluster.vnodes.applier", target="cluster.applier"),
    Violation("layers", "history.planted", "import holdfast.pipeline.spark.session"),
    Violation("layers", "session.planted", "import holdfast.durable.log", target="durable.log"),
    Violation("purity", "model.planted", "import asyncio"),
    Violation("purity", "topics.planted", "from time import monotonic"),
    Violation("purity", "wire.planted", "from os.path import join"),
    Violation("layers", "topics.planted", "import holdfast.files.lock"),
    Violation("files", "storage.planted", "import fcntl"),
    Violation("client-core", "client.state", "import time"),
    Violation("client", "client.planted", "import holdfast.durable.log", target="durable.log"),
    Violation("console", "console.planted", "import holdfast.exchange.drops"),
    Violation("driver-rocksdict", "node.planted", "import rocksdict"),
    Violation("driver-rocksdict", "storage.journal.planted", "from rocksdict import Rdict"),
    Violation("driver-redis", "storage.journal.planted", "import redis.asyncio"),
    Violation("driver-redis", "broker.planted", "import hiredis"),
    Violation("driver-asyncpg", "storage.rocks.planted", "import asyncpg"),
    Violation("driver-pyspark", "history.planted", "from pyspark.sql import SparkSession"),
    Violation("endpoint", "pipeline.planted", "from holdfast.history.flight.client import FlightHistory"),
    Violation("endpoint", "cli.planted", "import holdfast.history.flight.client"),
]

DRIVER_PACKAGES = [
    ("storage.rocks", "rocksdict"),
    ("storage.rocks.layouts", "rocksdict"),
    ("history", "rocksdict"),
    ("storage.redis", "redis"),
    ("storage.postgres", "asyncpg"),
    ("pipeline", "pyspark"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the package as it is, and with nothing else."""
    shutil.copytree(ROOT / "src/holdfast", tmp_path / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def plant(folder: Path, module: str, line: str) -> None:
    """Write a module, and make packages of the folders above it that are none yet."""
    path = (folder / "holdfast").joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in path.parents:
        if parent == folder:
            break
        (parent / "__init__.py").touch()
    path.write_text(line + "\n", encoding="utf-8")


def lint(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Check the copy by the project's configuration, as `make check` does."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    command += ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    for contract in contracts:
        command += ["--contract", contract]
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_package_keeps_every_contract(copy: Path) -> None:
    result = lint(copy)

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in result.stdout


@pytest.mark.parametrize("violation", VIOLATIONS, ids=str)
def test_a_planted_violation_breaks_its_contract(copy: Path, violation: Violation) -> None:
    plant(copy, violation.module, violation.line)
    if violation.target:
        plant(copy, violation.target, "")

    result = lint(copy, violation.contract)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{CONTRACTS[violation.contract]['name']} BROKEN" in result.stdout
    assert violation.module in result.stdout


def test_purity_catches_every_module_that_it_forbids(copy: Path) -> None:
    forbidden = CONTRACTS["purity"]["forbidden_modules"]
    plant(copy, "model.planted", "\n".join(f"import {name}" for name in forbidden))

    result = lint(copy, "purity")

    caught = {name for name in forbidden if f"holdfast.model is not allowed to import {name}:" in result.stdout}
    assert caught == set(forbidden), result.stdout + result.stderr


def test_a_driver_may_be_imported_in_its_package(copy: Path) -> None:
    for package, driver in DRIVER_PACKAGES:
        plant(copy, f"{package}.planted", f"import {driver}")

    result = lint(copy)

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_contract_is_shown_a_violation() -> None:
    assert {violation.contract for violation in VIOLATIONS} == set(CONTRACTS)


def test_every_pure_package_that_exists_is_held_to_purity() -> None:
    packages = PROJECT["tool"]["holdfast"]["pure-packages"]
    existing = {f"holdfast.{name}" for name in packages if (ROOT / "src/holdfast" / name).is_dir()}

    # Words of the control socket are pure and not compiled: msgspec makes their classes.
    assert set(CONTRACTS["purity"]["source_modules"]) == {*existing, "holdfast.control"}
