"""The parameters of a question about the past, and what a question is refused with.

A parameter that is not known, stands twice or has a wrong value is named, with what would be right; so nothing that was
asked for is left out in silence.
"""

import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final

from holdfast.durable.log import NO_END
from holdfast.history.past.time_scan import MAX_SHARD, Place
from holdfast.model.errors import PeerError, PermanentError
from holdfast.model.time import MICROSECOND_NS
from holdfast.topics.filters import REST, TopicFilter, parse_filter
from holdfast.topics.names import SEPARATOR
from holdfast.topics.since import is_number, parse_since

#: Digits of a number in a parameter.
_DIGITS: Final = 18
#: Characters of a wrong value that are shown.
_SHOWN: Final = 80
_YES: Final = ("1", "true")
_NO: Final = ("0", "false")


class QuestionError(PermanentError):
    """A question that cannot be answered: the status, a code for programs, words for people, and the parameter."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, parameter: str = "", border_us: int | None = None
    ) -> None:
        super().__init__(detail)
        self.status: Final = status
        self.code: Final = code
        self.detail: Final = detail
        self.parameter: Final = parameter
        #: Where what is kept begins now, if that is why.
        self.border_us: Final = border_us

    def fields(self) -> dict[str, object]:
        error: dict[str, object] = {"code": self.code, "detail": self.detail}
        if self.parameter:
            error["parameter"] = self.parameter
        return {"error": error} | ({} if self.border_us is None else {"border_us": self.border_us})


def wrong_value(parameter: str, detail: str) -> QuestionError:
    return QuestionError(HTTPStatus.BAD_REQUEST, "bad_value", f"{parameter}: {detail}", parameter)


def not_found(parameter: str, detail: str) -> QuestionError:
    return QuestionError(HTTPStatus.NOT_FOUND, "not_found", detail, parameter)


def dropped(border_us: int) -> QuestionError:
    """What retention took between two questions."""
    detail = f"retention has dropped a part of what was asked for; what is kept begins at {border_us} now"
    return QuestionError(HTTPStatus.GONE, "dropped", detail, border_us=border_us)


class Question:
    """The parameters of one question, each read and checked by name."""

    def __init__(
        self, given: Mapping[str, list[str]], known: Collection[str], repeated: Collection[str] = (), now_us: int = 0
    ) -> None:
        """`repeated` may be given several times. `now_us` is the time of asking; without one, that of the clock."""
        self.now_us: Final = now_us or time.time_ns() // MICROSECOND_NS
        self._given: Final = given
        #: Whether a time was asked for that is ahead of now.
        self.is_ahead = False
        for name, values in given.items():
            if name not in known and name not in repeated:
                there = ", ".join([*known, *repeated]) or "none"
                detail = f"there is no parameter {name[:_SHOWN]!r} here; there are: {there}"
                raise QuestionError(HTTPStatus.BAD_REQUEST, "unknown_parameter", detail, name[:_SHOWN])
            if len(values) > 1 and name not in repeated:
                raise wrong_value(name, f"it is given {len(values)} times; give it once")

    def has(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str, default: str = "") -> str:
        values = self._given.get(name)
        return values[0] if values else default

    def texts(self, name: str) -> list[str]:
        return list(self._given.get(name, ()))

    def needed(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise wrong_value(name, "it is missing, and the question needs it")
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if not self.has(name):
            return default
        if not is_number(text, _DIGITS) or not least <= int(text) <= most:
            raise wrong_value(name, f"{text[:_SHOWN]!r} is given; a whole number from {least} to {most} would be right")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.text(name, _NO[0])
        if text not in (*_YES, *_NO):
            raise wrong_value(name, f"{text[:_SHOWN]!r} is given; 0 or 1 would be right")
        return text in _YES

    def choice(self, name: str, default: str, choices: Collection[str]) -> str:
        text = self.text(name, default)
        if text not in choices:
            raise wrong_value(name, f"{text[:_SHOWN]!r} is given; there are: {', '.join(choices)}")
        return text

    def moment_us(self, name: str, default_us: int) -> int:
        """A time; `default_us` if it is not given."""
        if not self.has(name):
            return default_us
        try:
            at_us = parse_since(self.text(name)).resolve(self.now_us)
        except PeerError as error:
            raise wrong_value(name, error.detail) from error
        self.is_ahead = self.is_ahead or at_us > self.now_us
        return at_us

    def range_us(self) -> tuple[int, int]:
        """[from, to); all there is without them."""
        from_us, to_us = self.moment_us("from", 0), self.moment_us("to", NO_END)
        if from_us >= to_us:
            raise wrong_value("to", f"it is {to_us}, and from is {from_us}; a time behind that would be right")
        return from_us, to_us

    def filter(self, name: str = "filter", default: str = "#") -> TopicFilter:
        """A plain filter."""
        text = self.text(name) or default
        raw = text.encode()
        try:
            found = parse_filter(raw)
        except PeerError as error:
            raise wrong_value(name, f"{error.detail} ({_place(raw)})") from error
        if found.group or found.since:
            plain = found.inner().decode()
            raise wrong_value(name, f"$share and $replay have no meaning here; write the filter alone: {plain!r}")
        return found

    def topic(self, text: str, name: str = "topic") -> bytes:
        """A topic without wildcards."""
        raw = text.encode()
        try:
            found = parse_filter(raw)
        except PeerError as error:
            raise wrong_value(name, error.detail) from error
        if found.wildcard or found.group or found.since:
            raise wrong_value(name, f"{text[:_SHOWN]!r} is no topic; a name without wildcards would be right")
        return raw

    def zone(self, zones: Collection[str]) -> str | None:
        """One of the zones there are; None for all of them."""
        if not self.has("zone"):
            return None
        name = self.text("zone")
        if name not in zones:
            raise not_found("zone", f"there is no zone {name[:_SHOWN]!r}; there are: {', '.join(sorted(zones))}")
        return name


def below(at_us: int) -> Place:
    """The place below which all messages up to a moment lie."""
    return min(at_us, NO_END - 1) + 1, 0


def above(at_us: int) -> Place:
    """The place above which all messages behind a moment lie."""
    return at_us, MAX_SHARD


def _place(raw: bytes) -> str:
    """Where the first level stands that no filter may have, in characters from 1 on."""
    at = 0
    levels = raw.split(SEPARATOR)
    for number, level in enumerate(levels):
        ends_early = level == REST and number != len(levels) - 1
        if ends_early or (len(level) > 1 and (b"#" in level or b"+" in level)) or b"\0" in level:
            return f"at character {len(raw[:at].decode(errors='replace')) + 1}"
        at += len(level) + len(SEPARATOR)
    return "at character 1"
