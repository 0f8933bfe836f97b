"""Where compiled modules may be missing, and where their absence stops the build."""

from __future__ import annotations

import pytest

from scripts.compiled_tree import acceptable


@pytest.mark.parametrize(
    ("kind", "environment", "expected"),
    [
        ("requested", {"CI": "1"}, True),
        ("no-compiler", {}, True),
        ("no-compiler", {"CI": "1"}, False),
        ("no-compiler", {"CI": "1", "CC": "/bin/false"}, True),
        ("failed", {}, False),
        ("failed", {"CI": "1", "CC": "cc"}, False),
    ],
)
def test_plain_python_passes_only_where_it_is_no_accident(
    kind: str, environment: dict[str, str], expected: bool
) -> None:
    assert acceptable(kind, environment) is expected
