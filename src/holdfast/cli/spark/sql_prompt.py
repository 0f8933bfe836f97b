"""A prompt for SQL: statements over several lines until a `;`, and commands that begin with a dot.

The prompt does not know Spark: a function runs the statements. An error does not end the prompt. Ctrl-C discards what
was typed, or ends the statement that runs; Ctrl-D ends the prompt.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_READY: Final = "sql> "
_GOES_ON: Final = "  -> "
_KEPT_LINES: Final = 2000
#: A text, a name, a comment (which may not have ended yet), or the end of a statement.
_TOKEN: Final = re.compile(
    r"""'(?:\\.|[^'\\])*(?:'|\Z) | "(?:\\.|[^"\\])*(?:"|\Z) | `[^`]*(?:`|\Z) | --[^\n]* | /\*.*?(?:\*/|\Z) | ;""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
HELP: Final = """\
Type SQL, and end it with a semicolon. Views: {views}.
  .tables           views and their columns
  .schema NAME      the columns of a view with their types
  .help             this
  .quit             leave; so does Ctrl-D
Ctrl-C takes back what was typed, and ends a statement that runs."""


class Prompt:
    """`run` runs a statement and prints its errors; KeyboardInterrupt if the statement was ended."""

    def __init__(
        self,
        schemas: Callable[[], Mapping[str, Mapping[str, str]]],
        run: Callable[[str], None],
        read: Callable[[str], str] = input,
        say: Callable[[str], None] = print,
    ) -> None:
        self._schemas: Final = schemas
        self._run: Final = run
        self._read: Final = read
        self._say: Final = say

    def loop(self) -> None:
        """Until the end of what is typed."""
        typed = ""
        while True:
            try:
                line = self._read(_GOES_ON if typed else _READY)
            except EOFError:
                self._say("")
                return
            except KeyboardInterrupt:
                self._say("^C")
                typed = ""
                continue
            if not typed and line.lstrip().startswith("."):
                if not self._command(line.split()):
                    return
                continue
            statements, rest = cut(f"{typed}{line}\n")
            typed = "" if is_empty(rest) else rest
            self._run_all(statements)

    def _run_all(self, statements: list[str]) -> None:
        for statement in statements:
            try:
                self._run(statement)
            except KeyboardInterrupt:
                self._say("cancelled")
                return

    def _command(self, words: list[str]) -> bool:
        """Whether to go on."""
        schemas = self._schemas()
        match words:
            case [".quit" | ".exit"]:
                return False
            case [".help"]:
                self._say(HELP.format(views=", ".join(schemas)))
            case [".tables"]:
                for name, columns in schemas.items():
                    self._say(f"{name:<10} {', '.join(columns)}")
            case [".schema", name] if name in schemas:
                width = max(len(column) for column in schemas[name])
                for column, kind in schemas[name].items():
                    self._say(f"{column:<{width}}  {kind}")
            case [".schema", *_names]:
                self._say(f".schema takes one of: {', '.join(schemas)}")
            case _:
                self._say(f"there is no {words[0]}; there are .tables, .schema NAME, .help and .quit")
        return True


def remember_lines() -> None:
    """Line editing, and lines of earlier prompts, where Python has it."""
    try:
        import readline
    except ImportError:
        return
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "holdfast"
    path = folder / "sql-history"
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_KEPT_LINES)

    def keep() -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)

    import atexit

    atexit.register(keep)


def cut(text: str) -> tuple[list[str], str]:
    """The statements that are whole, without their ends, and the rest."""
    found: list[str] = []
    start = 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            found.append(text[start : token.start()].strip())
            start = token.end()
    return [statement for statement in found if not is_empty(statement)], text[start:]


def is_empty(text: str) -> bool:
    """Whether there is nothing to run in it."""
    return not _COMMENT.sub("", text).strip()
