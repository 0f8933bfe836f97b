"""Packages from the npm registry that tests use: fetched once, into `.build/npm`."""

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.services import need

FOLDER = Path(__file__).resolve().parents[1] / ".build" / "npm"


def npm_package(name: str, version: str) -> Path:
    """The package's folder. If it is not there it is fetched; where that fails, skip on a laptop and fail in CI."""
    npm = need("npm", "npm")
    folder = FOLDER / f"{name}-{version}"
    package = folder / "node_modules" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test runs side by side share it
        manifest = package / "package.json"
        if manifest.exists() and json.loads(manifest.read_text(encoding="utf-8"))["version"] == version:
            return package
        command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{name}@{version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode:
        message = f"{name} is missing, and `{' '.join(command)}` failed:\n{done.stderr}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
    return package
