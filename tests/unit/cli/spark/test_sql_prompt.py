"""SQL is cut where statements end, a prompt survives what is typed, and rows are printed for people and programs."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.cli.spark.sql import Form, print_rows
from holdfast.cli.spark.sql_prompt import Prompt, cut, is_empty

SCHEMAS = {"history": {"ts": "timestamp", "topic": "string"}, "sessions": {"client_id": "string"}}


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2; SEL", ["SELECT 1", "SELECT 2"], " SEL"),
        ("SELECT ';' AS a;", ["SELECT ';' AS a"], ""),
        ("SELECT 'it\\'s;' ;", ["SELECT 'it\\'s;'"], ""),
        ('SELECT "a;b", `c;d`;x', ['SELECT "a;b", `c;d`'], "x"),
        ("SELECT 1 -- not here;\n;", ["SELECT 1 -- not here;"], ""),
        ("/* nor; here */ SELECT 1;", ["/* nor; here */ SELECT 1"], ""),
        ("SELECT 'open; and on", [], "SELECT 'open; and on"),
        ("SELECT /* open; and on", [], "SELECT /* open; and on"),
        (";; -- nothing\n;", [], ""),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_is_part_of_one(text: str, statements: list[str], rest: str) -> None:
    assert cut(text) == (statements, rest)


def test_comments_alone_are_nothing_to_run() -> None:
    assert is_empty(" -- a\n /* b */ \n")
    assert not is_empty("/* b */ SELECT 1")


class Typed:
    """Lines as somebody types them; an exception is a key."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self._lines: Iterator[str | type[BaseException]] = iter(lines)
        self.prompts: list[str] = []
        self.said: list[str] = []
        self.ran: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    def run(self, statement: str) -> None:
        self.ran.append(statement)
        if "slow" in statement:
            raise KeyboardInterrupt

    def loop(self) -> "Typed":
        Prompt(lambda: SCHEMAS, self.run, self.read, self.said.append).loop()
        return self


def test_statements_may_take_several_lines_and_a_line_several_statements() -> None:
    typed = Typed("SELECT 1", "  FROM history", ";", "SELECT 2; SELECT 3;").loop()

    assert typed.ran == ["SELECT 1\n  FROM history", "SELECT 2", "SELECT 3"]
    assert typed.prompts == ["sql> ", "  -> ", "  -> ", "sql> ", "sql> "]


def test_ctrl_c_takes_back_what_was_typed_and_ends_what_runs() -> None:
    typed = Typed("SELECT half", KeyboardInterrupt, "SELECT slow; SELECT never;", "SELECT next;").loop()

    assert typed.ran == ["SELECT slow", "SELECT next"]
    assert typed.said == ["^C", "cancelled", ""]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (".tables", "history    ts, topic"),
        (".schema history", "ts     timestamp"),
        (".schema nothing", ".schema takes one of: history, sessions"),
        (".schema", ".schema takes one of: history, sessions"),
        (".help", "Type SQL, and end it with a semicolon. Views: history, sessions."),
        (".tabels", "there is no .tabels; there are .tables, .schema NAME, .help and .quit"),
    ],
)
def test_words_of_its_own_begin_with_a_dot(line: str, said: str) -> None:
    typed = Typed(line, "SELECT 1;", ".quit", "SELECT 2;").loop()

    assert typed.said[0].startswith(said)
    assert typed.ran == ["SELECT 1"]


ROWS: list[tuple[Any, ...]] = [
    ("a,b", 1, b"text", datetime(2026, 7, 1, tzinfo=UTC), [("unit", "C")], None),
    ('"', 22, b"\xff\x00", None, [], [{"x": b"1"}]),
]
COLUMNS = ("topic", "n", "payload", "ts", "properties", "many")


def printed(form: Form) -> list[str]:
    out = io.StringIO()
    print_rows(form, COLUMNS, ROWS, out)
    return out.getvalue().splitlines()


def test_rows_as_csv() -> None:
    assert printed(Form.CSV) == [
        "topic,n,payload,ts,properties,many",
        '"a,b",1,text,2026-07-01T00:00:00Z,"{""unit"": ""C""}",',
        '"""",22,base64:/wA=,,[],"[{""x"": ""1""}]"',
    ]


def test_rows_as_json() -> None:
    first, second = map(json.loads, printed(Form.JSON))

    assert first == {
        "topic": "a,b",
        "n": 1,
        "payload": "text",
        "ts": "2026-07-01T00:00:00Z",
        "properties": {"unit": "C"},
        "many": None,
    }
    assert second["many"] == [{"x": "1"}]


def test_rows_as_a_table() -> None:
    head, first, second = printed(Form.TABLE)

    assert head.split() == list(COLUMNS)
    assert first.split()[:3] == ["a,b", "1", "text"]
    assert first.rstrip().endswith("null")
    assert second.index("22") == first.index(" 1")
