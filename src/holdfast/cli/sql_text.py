"""SQL as people type it, cut into statements: a `;` ends one, unless it stands in a text, a name or a comment."""

import re
from typing import Final

#: A text, a name, a comment (which may not have ended yet), or the end of a statement.
_TOKEN: Final = re.compile(
    r"""'(?:\\.|[^'\\])*(?:'|\Z) | "(?:\\.|[^"\\])*(?:"|\Z) | `[^`]*(?:`|\Z) | --[^\n]* | /\*.*?(?:\*/|\Z) | ;""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


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
