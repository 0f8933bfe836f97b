"""Foreign programs that tests need: skipped with the install command on a laptop, failed in CI."""

import os
import shutil
import sys
from pathlib import Path

import pytest


def need(program: str, package: str, install: str = "apt-get install") -> str:
    """The path of `program`; without it the test is skipped, or fails where CI is set."""
    found = shutil.which(program, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        message = f"{program} is missing: {install} {package}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
    return found
