"""The modules of the pages are typed: JSDoc, checked by TypeScript. They are served as they are written."""

import subprocess
from pathlib import Path

import pytest

from tests.npm_packages import npm_package
from tests.services import need

pytestmark = pytest.mark.slow

TYPESCRIPT = "5.9.3"
SETTINGS = Path(__file__).with_name("tsconfig.json")
PAGES = Path(__file__).resolve().parents[2] / "src" / "holdfast" / "console" / "static"


def check(settings: Path) -> subprocess.CompletedProcess[str]:
    compiler = npm_package("typescript", TYPESCRIPT) / "bin" / "tsc"
    command = [need("node", "nodejs"), str(compiler), "--project", str(settings)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_module_of_the_pages_has_the_types_that_it_states() -> None:
    done = check(SETTINGS)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.js"
    wrong.write_text(f'import {{ bytes }} from "{PAGES / "parts" / "format.js"}";\nbytes("many");\n')
    settings = tmp_path / "tsconfig.json"
    settings.write_text(f'{{"extends": "{SETTINGS}", "include": ["{wrong}"], "exclude": []}}')
    done = check(settings)
    assert done.returncode != 0
    assert "Argument of type 'string' is not assignable" in done.stdout
