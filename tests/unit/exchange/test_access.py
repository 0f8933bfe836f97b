"""Rights by rules: what wins, what a subscription needs, and what is remembered."""

from itertools import product

import pytest

from holdfast.exchange.access import (
    DENY,
    MAX_CACHED_TOPIC_BYTES,
    MAX_CACHED_TOPICS,
    READ,
    WRITE,
    AccessRule,
    ClientAccess,
    FilledRules,
)
from holdfast.model.errors import MisuseError
from holdfast.topics.filters import levels_match, parse_filter

pytestmark = pytest.mark.compiled


class Given:
    """The same rules for every client; counts how often they are filled in."""

    def __init__(self, rules: tuple[tuple[int, str], ...]) -> None:
        self._rules = rules
        self.filled = 0

    def fill(self, client_id: str, user: str | None) -> FilledRules:
        self.filled += 1
        made = [
            AccessRule(f"acl:{number}", f"topic {granted} {text}", granted, tuple(text.encode().split(b"/")))
            for number, (granted, text) in enumerate(self._rules, 1)
        ]
        return FilledRules(made, "nothing else is allowed")


def access(*rules: tuple[int, str]) -> ClientAccess:
    return ClientAccess(Given(rules), "c", None)


def test_rules_are_filled_in_once_and_for_the_first_question() -> None:
    given = Given(((READ, "a/#"),))
    client = ClientAccess(given, "c", None)
    assert given.filled == 0
    assert client.may_receive(b"a/1")
    assert client.may_subscribe(parse_filter(b"a/2"))
    assert client.explain("receive", b"a/3")
    assert given.filled == 1


def test_without_a_rule_nothing_is_allowed() -> None:
    nobody = access()
    assert not nobody.may_publish(b"a")
    assert not nobody.may_receive(b"a")
    assert not nobody.may_subscribe(parse_filter(b"#"))


def test_reading_and_writing_are_granted_separately_and_add_up() -> None:
    client = access((READ, "r/#"), (WRITE, "w/#"), (READ, "both"), (WRITE, "both"), (READ | WRITE, "rw"))
    asked = [b"r/1", b"w/1", b"both", b"rw", b"x"]
    assert [client.may_receive(topic) for topic in asked] == [True, False, True, True, False]
    assert [client.may_publish(topic) for topic in asked] == [False, True, True, True, False]


@pytest.mark.parametrize("order", [1, -1])
def test_a_deny_wins_wherever_it_stands(order: int) -> None:
    rules = [(READ | WRITE, "a/#"), (DENY, "a/secret/#"), (READ | WRITE, "a/secret/not")]
    client = access(*rules[::order])
    assert client.may_publish(b"a/b")
    for topic in (b"a/secret", b"a/secret/x", b"a/secret/not"):
        assert not client.may_publish(topic)
        assert not client.may_receive(topic)


def test_every_rule_speaks_of_exactly_the_topics_that_its_filter_matches() -> None:
    parts = [b"", b"a", b"ab", b"$b"]
    topics = [b"/".join(levels) for count in (1, 2, 3) for levels in product(parts, repeat=count)][1:]
    beginnings = [levels for count in (0, 1, 2) for levels in product([*parts, b"+"], repeat=count)]
    filters = [b"/".join((*levels, end)) for levels in beginnings for end in (b"#", b"+", b"a")]

    wrong = [
        (text, topic)
        for text in filters
        for client in [access((READ, text.decode()))]
        for topic in topics
        if client.may_receive(topic) is not matches_topic(text, topic)
    ]

    assert wrong == []
    assert access((READ, "a/#")).may_receive(b"a")
    assert not access((READ, "a/#")).may_receive(b"ab")


def matches_topic(text: bytes, topic: bytes) -> bool:
    return levels_match(parse_filter(text).levels, topic.split(b"/"), dollar=topic[:1] == b"$")


def test_a_wildcard_rule_does_not_reach_dollar_topics() -> None:
    client = access((READ | WRITE, "#"), (READ | WRITE, "+/x"), (READ, "$SYS/broker/#"))
    assert not client.may_publish(b"$SYS/x")
    assert not client.may_receive(b"$other/x")
    assert client.may_receive(b"$SYS/broker/uptime")
    assert not client.may_subscribe(parse_filter(b"$other/#"))


@pytest.mark.parametrize(
    ("topic_filter", "accepted"),
    [
        (b"#", True),
        (b"plant/#", True),
        (b"plant/+/temp", True),
        (b"+/1/temp", True),
        (b"plant/1/safe/door", False),
        (b"plant/1/safe/#", False),
        (b"plant/+/safe/#", False),
        (b"plant/+/+/door", True),
        (b"office/#", False),
        (b"+", True),
        (b"commands/1", False),
        (b"$SYS/#", False),
        (b"$share/group/plant/1", True),
        (b"$share/group/office/1", False),
        (b"$replay/-2h/plant/1", True),
        (b"$replay/earliest/office/1", False),
        (b"$share/plant/$replay/earliest/plant/1/safe/door", False),
    ],
)
def test_a_subscription_is_refused_exactly_if_it_could_deliver_nothing(topic_filter: bytes, accepted: bool) -> None:
    client = access((READ, "plant/#"), (WRITE, "commands/#"), (DENY, "plant/+/safe/#"))
    assert client.may_subscribe(parse_filter(topic_filter)) == accepted
    assert ("is allowed by acl:1" in client.explain("subscribe", topic_filter)) == accepted


def test_an_explanation_names_the_rule_that_decided() -> None:
    client = access((READ, "a/#"), (DENY, "a/secret"), (WRITE, "a/up"))
    assert client.explain("receive", b"a/secret") == "receive 'a/secret' is denied by acl:2: topic 0 a/secret"
    assert client.explain("receive", b"a/b") == "receive 'a/b' is allowed by acl:1: topic 1 a/#"
    assert client.explain("publish", b"a/up") == "publish 'a/up' is allowed by acl:3: topic 2 a/up"
    assert client.explain("publish", b"a/b") == "publish 'a/b' is denied: nothing else is allowed"
    assert client.explain("subscribe", b"$share/g/a/secret") == (
        "subscribe '$share/g/a/secret' is denied by acl:2: topic 0 a/secret"
    )
    assert client.explain("subscribe", b"a/#/b").startswith("subscribe 'a/#/b' is denied: ")


def test_an_explanation_fits_a_log_line_whatever_the_topic_is() -> None:
    assert len(access().explain("publish", b"x" * 65_535)) < 400
    assert "\n" not in access().explain("publish", b"a\nb")
    assert access().explain("publish", b"\xff")


def test_an_action_that_does_not_exist_is_a_bug_of_ours() -> None:
    with pytest.raises(MisuseError, match="'fly' is none of publish, receive, subscribe"):
        access().explain("fly", b"a")


def test_what_is_remembered_is_right_and_bounded() -> None:
    client = access((READ, "+/1/#"), (WRITE, "+/+/2"), (DENY, "a/#"))
    for turn in range(3):
        for number in range(MAX_CACHED_TOPICS * 2 + turn):
            topic = f"{number}/{number % 3}/{number % 4}".encode()
            assert client.may_receive(topic) == (number % 3 == 1)
            assert client.may_publish(topic) == (number % 4 == 2)
            client.check_invariants()


def test_a_long_topic_is_judged_without_being_remembered() -> None:
    client = access((READ, "a/#"))
    for number in range(3):
        topic = b"a/%d/" % number + b"x" * MAX_CACHED_TOPIC_BYTES
        assert client.may_receive(topic)
        assert not client.may_publish(topic)
    client.check_invariants()
