"""Foreign programs that tests need: skipped with the install command on a laptop, failed in CI."""

import os
import shutil

import pytest


def need(program: str, package: str) -> str:
    """The path of `program`; without it the test is skipped, or fails where CI is set."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        message = f"{program} is missing: apt-get install {package}"
        if "CI" in os.environ:
            pytest.fail(message)
        pytest.skip(message)
    return found
