"""The rights of one client: the rules that concern it, with its names filled in.

For a topic:
1. A `deny` that matches wins over everything.
2. Otherwise the action needs a rule that matches and grants it.
3. What no rule grants is denied.

For a subscription: it is refused if no rule that grants reading has a topic in common with it, or if one `deny`
covers it whole, because then it could not deliver anything. Otherwise it is accepted, and each message is checked
on its way out. So a wide subscription such as `#` delivers exactly what may be read.

This lies here and not beside the access file because it is asked on the way of every message, and only what is
compiled together answers fast.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.topics.filters import TopicFilter, levels_match, parse_filter
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.overlap import covers, overlap

DENY: Final = 0
READ: Final = 1
WRITE: Final = 2

#: Answers remembered for each client: few, as clients are many and most have few topics.
MAX_CACHED_TOPICS: Final = 64
#: Longer topics are judged each time: remembering them would let a client fill the memory with names.
MAX_CACHED_TOPIC_BYTES: Final = 256
#: How much of a topic goes into an explanation; there are topics of 65,535 bytes.
_SHOWN_TOPIC_CHARS: Final = 256

_ACTIONS: Final = {"publish": WRITE, "receive": READ, "subscribe": READ}


class AccessRule:
    """One line of the access file, for one client."""

    def __init__(self, where: str, text: str, access: int, levels: tuple[bytes, ...]) -> None:
        #: `file:line`.
        self.where: Final = where
        #: The line as written.
        self.text: Final = text
        #: DENY, or READ and WRITE added up.
        self.access: Final = access
        self.levels: Final = levels

    def __repr__(self) -> str:
        return f"Rule({self.where}: {self.text})"


class ClientAccess:
    """The rights of one client. The exchange asks once per topic and remembers.

    1. The answer for a topic never changes: rules are not added later.
    2. At most MAX_CACHED_TOPICS answers are remembered.
    """

    def __init__(self, rules: list[AccessRule], otherwise: str) -> None:
        """`otherwise` says why something is denied that no rule speaks of."""
        self._denials: Final = [rule for rule in rules if rule.access == DENY]
        self._grants: Final = [rule for rule in rules if rule.access != DENY]
        self._otherwise: Final = otherwise
        self._known: Final[dict[bytes, int]] = {}

    def may_publish(self, topic: bytes) -> bool:
        """Whether the client may publish to `topic`; a will counts as its publish."""
        return self._access(topic) & WRITE != 0

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message of `topic` may be sent to the client, be it live, retained or replayed."""
        return self._access(topic) & READ != 0

    def may_subscribe(self, topic_filter: TopicFilter) -> bool:
        """Whether the subscription is accepted; `$share` and `$replay` in front of the filter make no difference."""
        levels = topic_filter.levels
        return self._cover(levels) is None and self._reach(levels) is not None

    def explain(self, action: str, topic: bytes) -> str:
        """Which rule decides about `action` on `topic`, for a log line.

        `action` is `publish`, `receive`, or `subscribe`, where `topic` is the filter as the client wrote it.
        """
        if action not in _ACTIONS:
            raise MisuseError(f"action {action!r} is none of {', '.join(_ACTIONS)}")
        if action == "subscribe":
            try:
                levels = parse_filter(topic).levels
            except PeerError as error:
                return f"{action} {_text(topic)} is denied: {error.detail}"
            denial, grant = self._cover(levels), self._reach(levels)
        else:
            denial = _first(self._denials, topic, DENY)
            grant = _first(self._grants, topic, _ACTIONS[action])
        subject = f"{action} {_text(topic)}"
        if denial is not None:
            return f"{subject} is denied by {denial.where}: {denial.text}"
        if grant is not None:
            return f"{subject} is allowed by {grant.where}: {grant.text}"
        return f"{subject} is denied: {self._otherwise}"

    def _access(self, topic: bytes) -> int:
        known = self._known.get(topic)
        if known is not None:
            return known
        found = self._judge(topic)
        if len(topic) <= MAX_CACHED_TOPIC_BYTES:
            if len(self._known) >= MAX_CACHED_TOPICS:
                self._known.clear()
            self._known[topic] = found
        return found

    def _judge(self, topic: bytes) -> int:
        levels = topic.split(SEPARATOR)
        dollar = is_dollar(topic)
        for rule in self._denials:
            if levels_match(rule.levels, levels, dollar=dollar):
                return DENY
        found = DENY
        for rule in self._grants:
            # Only a rule that would add something is matched.
            if rule.access | found != found and levels_match(rule.levels, levels, dollar=dollar):
                found |= rule.access
        return found

    def _cover(self, levels: tuple[bytes, ...]) -> AccessRule | None:
        """The rule that denies everything which these levels match."""
        return next((rule for rule in self._denials if covers(rule.levels, levels)), None)

    def _reach(self, levels: tuple[bytes, ...]) -> AccessRule | None:
        """A rule that lets something be read which these levels match."""
        return next((rule for rule in self._grants if rule.access & READ and overlap(rule.levels, levels)), None)

    def check_invariants(self) -> None:
        """Judge every remembered topic again, and count them."""
        assert len(self._known) <= MAX_CACHED_TOPICS
        for topic, found in self._known.items():
            assert self._judge(topic) == found, topic


def _first(rules: list[AccessRule], topic: bytes, access: int) -> AccessRule | None:
    """The first rule that matches and grants `access`; DENY asks for no grant."""
    levels = topic.split(SEPARATOR)
    dollar = is_dollar(topic)
    for rule in rules:
        if rule.access & access == access and levels_match(rule.levels, levels, dollar=dollar):
            return rule
    return None


def _text(topic: bytes) -> str:
    text = topic.decode(errors="replace")
    return repr(text) if len(text) <= _SHOWN_TOPIC_CHARS else f"{text[:_SHOWN_TOPIC_CHARS]!r}…"
