"""The access file, in Mosquitto's form: which topics who may read and write.

    # a comment
    topic read public/#                      before any `user`: clients without a user name
    user alice
    topic readwrite plant/hall 2/#           for alice; blanks inside a filter belong to it
    topic deny plant/hall 2/safe/#
    pattern write devices/%c/up              for all clients; %c is the client id, %u the user name

`read` is subscribe and receive, `write` is publish, `readwrite` is both and may be left out, `deny` is neither.
A filter is the plain one: `$share/<group>/` and `$replay/<since>/` are no part of it.

Rules:
1. The order of the lines makes no difference, but that `topic` belongs to the `user` line before it. What no line
   grants is denied. A `deny` wins, wherever it stands. (Mosquitto lets a `topic` that grants win over a `pattern`
   that denies; apart from that, the same file means the same.)
2. A name is filled into a pattern only if it stays one level there: with `+`, `#` or `/` in it, or empty, or `$` at
   the start of the whole filter, a client could reach more than the rule speaks of just by calling itself so.
   Then the pattern grants nothing to this client; and if it is a `deny`, it is unknown what it would have denied,
   so the client is denied everything.
3. A pattern with %u does not concern a client without a user name.
"""

import re
from pathlib import Path
from typing import Final

from holdfast.broker.access.text_file import WrongLines, read_lines, shown
from holdfast.exchange.access import DENY, READ, WRITE, AccessRule, ClientAccess, FilledRules
from holdfast.model.errors import PeerError, SettingsError
from holdfast.topics.filters import parse_filter
from holdfast.topics.names import SEPARATOR

_WHAT: Final = "the access file"
_ACCESS: Final = {"read": READ, "write": WRITE, "readwrite": READ | WRITE, "deny": DENY}
_BLANKS: Final = re.compile(r"[ \t]+")
_PLACEHOLDER: Final = re.compile(r"%[cu]")
_DANGEROUS: Final = re.compile(r"[+#/]")
_FORMS: Final = (
    "user <name>, topic [read|write|readwrite|deny] <filter> or pattern [read|write|readwrite|deny] <filter>"
)


class AccessPattern:
    """A `pattern` line: a rule with names to be filled in."""

    def __init__(self, where: str, text: str, access: int, filter_text: str) -> None:
        self.where: Final = where
        self.text: Final = text
        self.access: Final = access
        self._filter: Final = filter_text
        self._by_user: Final = "%u" in filter_text

    def concerns(self, user: str | None) -> bool:
        return user is not None or not self._by_user

    def fill(self, client_id: str, user: str | None) -> AccessRule | str:
        """The rule for one client, or why its names cannot be filled in.

        Requires: `concerns(user)`.
        """
        names = {"%c": client_id, "%u": user or ""}
        for placeholder, whose in (("%c", "client id"), ("%u", "user name")):
            if placeholder in self._filter:
                name = names[placeholder]
                if not name:
                    return f"the {whose} is empty"
                if found := _DANGEROUS.search(name):
                    return f"the {whose} {shown(name)} contains '{found[0]}'"
        # In one pass, so that a placeholder inside a name stays what it is: a part of the name.
        filled = _PLACEHOLDER.sub(lambda found: names[found[0]], self._filter)
        if filled.startswith("$") and not self._filter.startswith("$"):
            return "the name would make it a filter of $-topics"
        return AccessRule(self.where, self.text, self.access, tuple(filled.encode().split(SEPARATOR)))


class Rules:
    """What an access file said when it was read."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._anonymous: Final[list[AccessRule]] = []
        self._by_user: Final[dict[str, list[AccessRule]]] = {}
        self._patterns: Final[list[AccessPattern]] = []
        #: Shared by all clients without a user name, which may be as many as connections.
        self._otherwise: Final = f"no rule of {name} allows it to a client without a user name"

    @classmethod
    def load(cls, path: Path) -> "Rules":
        """Read the file, or raise SettingsError that names each wrong line and what would be right."""
        return cls.parse(read_lines(path, _WHAT), str(path))

    @classmethod
    def parse(cls, lines: list[str], name: str) -> "Rules":
        """Rules from lines; `name` stands for the file in messages."""
        rules = cls(name)
        wrong = WrongLines()
        section = rules._anonymous
        for number, line in enumerate(lines, 1):
            text = line.strip(" \t\r")
            if text and not text.startswith("#"):
                with wrong.gathered():
                    section = rules._take(f"{name}:{number}", text, section)
        wrong.refuse()
        return rules

    def _take(self, where: str, text: str, section: list[AccessRule]) -> list[AccessRule]:
        """Read one line; the rules that the next `topic` belongs to."""
        word, rest = _cut(text)
        if word == "user":
            if not rest:
                raise SettingsError(f"{where}: {text!r}: no name; write: user <name>")
            return self._by_user.setdefault(rest, [])
        if word == "topic":
            access, filter_text = _parse_rest(word, rest, where, text)
            section.append(AccessRule(where, text, access, tuple(filter_text.encode().split(SEPARATOR))))
        elif word == "pattern":
            access, filter_text = _parse_rest(word, rest, where, text)
            self._patterns.append(AccessPattern(where, text, access, filter_text))
        else:
            raise SettingsError(f"{where}: {text!r}: {word!r} begins no rule; write: {_FORMS}")
        return section

    def for_client(self, client_id: str, user: str | None) -> ClientAccess:
        """The rights of a client; `user` is None for one without a user name, and verified otherwise."""
        return ClientAccess(self, client_id, user)

    def fill(self, client_id: str, user: str | None) -> FilledRules:
        """The rules that concern a client."""
        otherwise = self._otherwise if user is None else f"no rule of {self._name} allows it to user {shown(user)}"
        rules = list(self._anonymous if user is None else self._by_user.get(user, ()))
        left_out: list[str] = []
        for pattern in self._patterns:
            if not pattern.concerns(user):
                continue
            filled = pattern.fill(client_id, user)
            if isinstance(filled, AccessRule):
                rules.append(filled)
            elif pattern.access == DENY:
                return FilledRules(
                    [], f"{pattern.where}: {pattern.text} cannot be applied, as {filled}; so nothing is allowed"
                )
            else:
                left_out.append(f"{pattern.where} does not apply, as {filled}")
        return FilledRules(rules, "; ".join([otherwise, *left_out]))


def _cut(text: str) -> tuple[str, str]:
    """The first word, and what follows the blanks behind it."""
    found = _BLANKS.search(text)
    return (text, "") if found is None else (text[: found.start()], text[found.end() :])


def _parse_rest(word: str, rest: str, where: str, text: str) -> tuple[int, str]:
    """Access and filter of a `topic` or `pattern` line."""
    if not rest or rest in _ACCESS:
        raise SettingsError(f"{where}: {text!r}: no filter; write: {word} [read|write|readwrite|deny] <filter>")
    access, filter_text = _cut(rest)
    if not filter_text:
        access, filter_text = "readwrite", rest
    if access not in _ACCESS:
        raise SettingsError(
            f"{where}: {text!r}: {access!r} is none of read, write, readwrite, deny; "
            f"a filter with blanks needs one of them in front: {word} readwrite {rest}"
        )
    try:
        parsed = parse_filter(filter_text.encode())
    except PeerError as error:
        hint = "; a comment needs its own line" if " #" in filter_text else ""
        raise SettingsError(f"{where}: {text!r}: {error.detail}{hint}") from None
    if parsed.group or parsed.since:
        raise SettingsError(
            f"{where}: {text!r}: rules speak of the filter behind $share and $replay; "
            f"write: {word} {access} {parsed.inner().decode()}"
        )
    return _ACCESS[access], filter_text
