"""What the page computes by itself: texts of values, words for a shell, quantiles, addresses."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.browsing import expect

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def call(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a function of a part of the page."""
    page = open_page("/health")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()

    def call(part: str, function: str, *arguments: Any) -> Any:
        script = "async ([part, name, given]) => (await import(`/static/parts/${part}.js`))[name](...given)"
        return page.evaluate(script, [part, function, list(arguments)])

    return call


#: A function, what it is given, and the text.
TEXTS = [
    ("number", 41203, "41,203"),
    ("number", 0.25, "0.25"),
    ("number", -3, "−3"),  # noqa: RUF001
    ("number", None, "–"),  # noqa: RUF001
    ("short", 1_204_311, "1.2M"),
    ("short", 999, "999"),
    ("bytes", 880_000_000, "880 MB"),
    ("bytes", 999_600, "1 MB"),
    ("bytes", 12, "12 B"),
    ("duration", 0.0009, "900 µs"),
    ("duration", 0.004, "4 ms"),
    ("duration", 59.6, "1 min"),
    ("duration", 7500, "2 h 5 min"),
    ("duration", 19 * 86_400, "19 d"),
    ("percent", 0.41, "41 %"),
    ("percent", 0.001, "<1 %"),
    ("time", 1_795_010_590_123_456, "2026-11-18 14:03:10"),
    ("iso", 1_795_010_590_123_456, "2026-11-18T14:03:10.123456Z"),
    ("visible", "a\u202eb\x00\n", "a\\u{202e}b\\0\\n"),
    ("visible", "x" * 500, "x" * 200 + "… (+300)"),
    ("toText", {"base64": "/wA="}, "\\xff\\x00"),
]


def test_values_as_text(call: Callable[..., Any]) -> None:
    assert [(name, value, call("format", name, value)) for name, value, _text in TEXTS] == TEXTS


def test_words_for_a_shell_come_out_as_they_went_in(call: Callable[..., Any]) -> None:
    for word in ("plain-1", "it's", "a b", '$HOME `x` "y" \\ !', "line\nbreak\t\x1b[1m", "Ünï\u202ecode", ""):
        quoted = call("api", "quote", word)
        shown = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True)
        assert shown.stdout.decode() == word
        assert "\x1b" not in quoted


def test_a_call_as_curl_is_one_command(call: Callable[..., Any]) -> None:
    line = call("api", "asCurl", "clients", {"q": "it's; rm -rf /", "state": None, "user": ""})
    words = shlex.split(line)
    assert words[0] == "curl"
    assert words[-1].endswith("/api/v1/clients?q=it%27s%3B+rm+-rf+%2F")


def test_a_quantile_is_the_bound_that_is_not_exceeded(call: Callable[..., Any]) -> None:
    assert call("numbers", "quantile", [1, 2, 5], [50, 49, 1, 0], 0.99) == 2
    assert call("numbers", "quantile", [1, 2, 5], [50, 48, 2, 0], 0.99) == 5
    assert call("numbers", "quantile", [1, 2, 5], [0, 0, 0, 9], 0.5) == 5
    assert call("numbers", "quantile", [1, 2, 5], [0, 0, 0, 0], 0.5) is None


def test_a_disk_that_does_not_fill_is_never_full(call: Callable[..., Any]) -> None:
    falling = call("numbers", "untilZero", [100 - n for n in range(20)], 10)
    assert falling == {"seconds": pytest.approx(810), "of_s": 190}
    assert call("numbers", "untilZero", [5] * 20, 10) == {"seconds": None, "of_s": 190}
    # Gaps at both ends are no time of which anything is known.
    assert call("numbers", "untilZero", [None, *[5] * 10, None], 60) == {"seconds": None, "of_s": 540}


def test_of_a_few_values_no_pace_is_told(call: Callable[..., Any]) -> None:
    for values in ([9, 8, None], [100 - n for n in range(9)], [5] * 9, []):
        assert call("numbers", "untilZero", values, 10) == {"seconds": None, "of_s": None}


def test_markdown_is_read_in_its_parts(call: Callable[..., Any]) -> None:
    text = """# Title

A paragraph
of two lines.

1. One
   goes on.

   ```sh
   ls  <b>
   ```

2. Two

| a | b |
|---|---|
| `x \\| y` | z |
"""
    assert call("markdown", "blocksOf", text) == [
        {"kind": "heading", "level": 1, "text": "Title", "id": "title"},
        {"kind": "text", "text": "A paragraph of two lines."},
        {
            "kind": "list",
            "ordered": True,
            "items": [
                [{"kind": "text", "text": "One goes on."}, {"kind": "code", "text": "ls  <b>"}],
                [{"kind": "text", "text": "Two"}],
            ],
        },
        {"kind": "table", "head": ["a", "b"], "rows": [["`x | y`", "z"]]},
    ]
    assert call("markdown", "anchorOf", "The folder, a `b`: is in_use!") == "the-folder-a-b-is-in_use"


def test_a_gap_is_where_no_line_has_a_value(call: Callable[..., Any]) -> None:
    times = [0, 1, 2, 3, 4, 5]
    assert call("chart", "gaps", times, [[1, None, None, 1, 1, 1]]) == [[0, 3]]
    assert call("chart", "gaps", times, [[1, None, 1, 1, 1, None], [1, 2, 1, 1, 1, None]]) == [[4, 5]]
    # Before the first value of all, nothing is known to be missing.
    assert call("chart", "gaps", times, [[None, None, 1, 1, 1, 1]]) == []


def test_addresses_of_any_name_lead_back_to_it(call: Callable[..., Any]) -> None:
    for name in ("a/b", "%2e%2e", "x?y#z", "ünï", "mount\0id"):
        path = call("client_row", "clientAddress", name)
        assert call("router", "segments", path) == ["clients", name]
    # A browser takes these two out of an address.
    assert call("client_row", "clientAddress", "..") == "/clients?q=.."
