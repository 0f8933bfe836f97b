"""Who makes a request: a person with a password, a person with a one-time link, or a program with a token."""

from dataclasses import dataclass

from holdfast.console.problems import ProblemError
from holdfast.model.errors import PeerError
from holdfast.model.roles import includes
from holdfast.topics.filters import parse_filter
from holdfast.topics.overlap import covers

#: Kinds of identities: never change, they stand in the audit file.
LINK = "link"
USER = "user"
TOKEN = "token"


@dataclass(frozen=True)
class Identity:
    name: str
    role: str
    #: LINK, USER or TOKEN.
    kind: str
    #: None: it does not end.
    expires_us: int | None = None
    #: Empty: all topics. Else what is read has to lie within one of them.
    filters: tuple[str, ...] = ()

    def require(self, role: str) -> None:
        """ProblemError (403) unless the role includes `role`."""
        if not includes(self.role, role):
            raise ProblemError(403, f"this needs the role {role}, and {self.name} has the role {self.role}")

    def require_topics(self, filters: list[str], parameter: str) -> None:
        """ProblemError (403) unless every filter lies within those of this identity; 400 if one is no filter.

        Without any filter all topics are asked for.
        """
        for text in filters or ["#"]:
            if not self._covers(parse_plain_filter(text, parameter)):
                shown = ", ".join(self.filters)
                raise ProblemError(403, f"{self.name} may read {shown} only; name a filter within", parameter=parameter)

    def may_read(self, topic_filter: str) -> bool:
        """Whether all topics of a filter may be read."""
        return self._covers(parse_filter(topic_filter.encode()).levels)

    def _covers(self, levels: tuple[bytes, ...]) -> bool:
        return not self.filters or any(covers(parse_filter(wide.encode()).levels, levels) for wide in self.filters)


def parse_plain_filter(text: str, parameter: str) -> tuple[bytes, ...]:
    """The levels of a filter. ProblemError (400) if it is none, or one with `$share` or `$replay`."""
    try:
        found = parse_filter(text.encode())
    except PeerError as error:
        raise ProblemError(400, f"{parameter}: {error.detail}", parameter=parameter) from None
    if found.group or found.since:
        detail = f"{parameter} is {text!r}; write the filter alone, without $share and $replay"
        raise ProblemError(400, detail, parameter=parameter)
    return found.levels
