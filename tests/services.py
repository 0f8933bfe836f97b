"""Foreign programs that tests need: skipped with the install command on a laptop, failed in CI."""

import os
import shutil
import sys
from pathlib import Path

import pytest

#: Programs in Python whose requirements do not agree with those of Holdfast; `make dev` installs them there.
_SERVICES = Path(__file__).resolve().parents[1] / ".services" / "bin"


def need(program: str, package: str, install: str = "apt-get install") -> str:
    """The path of `program`; without it the test is skipped, or fails where CI is set."""
    places = [Path(sys.executable).parent, _SERVICES, os.environ.get("PATH", ""), "/usr/sbin"]
    found = shutil.which(program, path=":".join(map(str, places)))
    if found is None:
        message = f"{program} is missing: {install} {package}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
    return found
