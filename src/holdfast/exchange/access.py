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

from typing import Final, Protocol

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

_SEPARATOR_BYTE: Final = SEPARATOR[0]
#: Of a topic that needs not be split. Never changed.
_NO_LEVELS: Final[list[bytes]] = []
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
        #: What stands before the last `/#`, if nothing else in the filter is a wildcard: then a topic needs not be
        #: split to be judged. None for other filters.
        self.below: Final = _below(levels)

    def __repr__(self) -> str:
        return f"Rule({self.where}: {self.text})"


class FilledRules:
    """The rules that concern one client, with its names filled in, and the answers that they gave lately."""

    def __init__(self, rules: list[AccessRule], otherwise: str) -> None:
        self.denials: Final = [rule for rule in rules if rule.access == DENY]
        self.grants: Final = [rule for rule in rules if rule.access != DENY]
        #: Why something is denied that no rule speaks of.
        self.otherwise: Final = otherwise
        #: Whether a rule is compared level by level.
        self.by_levels: Final = any(rule.below is None for rule in rules)
        self.known: Final[dict[bytes, int]] = {}


class AccessRules(Protocol):
    """The rules of all clients. They never change: other rules are another object."""

    def fill(self, client_id: str, user: str | None) -> FilledRules:
        """The rules of one client; `user` is None for one without a user name, and verified otherwise."""


class ClientAccess:
    """The rights of one client. The exchange asks once per topic and remembers.

    1. The answer for a topic never changes: rules are not added later.
    2. At most MAX_CACHED_TOPICS answers are remembered.
    3. Rules are filled in for the first question: of a large fleet most clients are connected and ask none.
    """

    def __init__(self, rules: AccessRules, client_id: str, user: str | None) -> None:
        self._rules: Final = rules
        self._client_id: Final = client_id
        self._user: Final = user
        self._filled: FilledRules | None = None

    def may_publish(self, topic: bytes) -> bool:
        """Whether the client may publish to `topic`; a will counts as its publish."""
        return self._access(topic) & WRITE != 0

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message of `topic` may be sent to the client, be it live, retained or replayed."""
        return self._access(topic) & READ != 0

    def may_subscribe(self, topic_filter: TopicFilter) -> bool:
        """Whether the subscription is accepted; `$share` and `$replay` in front of the filter make no difference."""
        levels = topic_filter.levels
        rules = self._own_rules()
        return _cover(rules, levels) is None and _reach(rules, levels) is not None

    def explain(self, action: str, topic: bytes) -> str:
        """Which rule decides about `action` on `topic`, for a log line.

        `action` is `publish`, `receive`, or `subscribe`, where `topic` is the filter as the client wrote it.
        """
        if action not in _ACTIONS:
            raise MisuseError(f"action {action!r} is none of {', '.join(_ACTIONS)}")
        rules = self._own_rules()
        if action == "subscribe":
            try:
                levels = parse_filter(topic).levels
            except PeerError as error:
                return f"{action} {_text(topic)} is denied: {error.detail}"
            denial, grant = _cover(rules, levels), _reach(rules, levels)
        else:
            denial = _first(rules.denials, topic, DENY)
            grant = _first(rules.grants, topic, _ACTIONS[action])
        subject = f"{action} {_text(topic)}"
        if denial is not None:
            return f"{subject} is denied by {denial.where}: {denial.text}"
        if grant is not None:
            return f"{subject} is allowed by {grant.where}: {grant.text}"
        return f"{subject} is denied: {rules.otherwise}"

    def _own_rules(self) -> FilledRules:
        filled = self._filled
        if filled is None:
            filled = self._filled = self._rules.fill(self._client_id, self._user)
        return filled

    def _access(self, topic: bytes) -> int:
        rules = self._own_rules()
        known = rules.known.get(topic)
        if known is not None:
            return known
        found = _judge(rules, topic)
        if len(topic) <= MAX_CACHED_TOPIC_BYTES:
            if len(rules.known) >= MAX_CACHED_TOPICS:
                rules.known.clear()
            rules.known[topic] = found
        return found

    def check_invariants(self) -> None:
        """Judge every remembered topic again, and count them."""
        rules = self._own_rules()
        assert len(rules.known) <= MAX_CACHED_TOPICS
        for topic, found in rules.known.items():
            assert _judge(rules, topic) == found, topic


def _judge(rules: FilledRules, topic: bytes) -> int:
    levels = topic.split(SEPARATOR) if rules.by_levels else _NO_LEVELS
    for rule in rules.denials:
        if _matches(rule, topic, levels):
            return DENY
    found = DENY
    for rule in rules.grants:
        # Only a rule that would add something is matched.
        if rule.access | found != found and _matches(rule, topic, levels):
            found |= rule.access
    return found


def _below(levels: tuple[bytes, ...]) -> bytes | None:
    parents = levels[:-1]
    if levels[-1] != b"#" or not parents or b"+" in parents:
        return None
    return SEPARATOR.join(parents)


def _matches(rule: AccessRule, topic: bytes, levels: list[bytes]) -> bool:
    """Whether a rule speaks of a topic; `levels` are those of the topic, if the rule is compared by them."""
    below = rule.below
    if below is None:
        return levels_match(rule.levels, levels, dollar=is_dollar(topic))
    size = len(below)
    return topic.startswith(below) and (len(topic) == size or topic[size] == _SEPARATOR_BYTE)


def _cover(rules: FilledRules, levels: tuple[bytes, ...]) -> AccessRule | None:
    """The rule that denies everything which these levels match."""
    return next((rule for rule in rules.denials if covers(rule.levels, levels)), None)


def _reach(rules: FilledRules, levels: tuple[bytes, ...]) -> AccessRule | None:
    """A rule that lets something be read which these levels match."""
    return next((rule for rule in rules.grants if rule.access & READ and overlap(rule.levels, levels)), None)


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
