"""Rights compiled for a client equal a reading of the access file that goes line by line for each question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.access.rules import Rules
from holdfast.topics.filters import parse_filter

pytestmark = pytest.mark.compiled

# Few names, so that rules and topics meet; the odd ones are those that could widen a pattern.
NAMES = ["a", "b", "a/b", "+", "#", "$s", "%u", ""]
TOPICS = [
    "/".join(levels)
    for first in ["a", "b", "xa", "$s", "%u", ""]
    for levels in ([first], [first, "a"], [first, "b", "a"])
]
LEVELS = ["a", "b", "$s", "%c", "%u", "+", "x%c", ""]

names = st.sampled_from(NAMES)
filter_texts = st.builds(
    lambda levels, rest: "/".join([*levels, "#"] if rest else levels) or "#",
    st.lists(st.sampled_from(LEVELS), max_size=3),
    st.booleans(),
)
lines = st.one_of(
    st.sampled_from(["user a", "user b", "user +", "# comment", ""]),
    st.builds(
        lambda word, access, text: f"{word} {access}{text}",
        st.sampled_from(["topic", "pattern"]),
        st.sampled_from(["", "read ", "write ", "readwrite ", "deny "]),
        filter_texts,
    ),
)


def matches(filter_text: str, topic: str) -> bool:
    if topic.startswith("$") and filter_text[0] in "+#":
        return False
    wanted, found = filter_text.split("/"), topic.split("/")
    for i, level in enumerate(wanted):
        if level == "#":
            return True
        if i >= len(found) or level not in ("+", found[i]):
            return False
    return len(wanted) == len(found)


def filled(text: str, client_id: str, user: str | None) -> str | None:
    """The filter of a pattern for one client; None if a name must not be filled in."""
    made = ""
    while text:
        if text.startswith(("%c", "%u")):
            name = client_id if text[1] == "c" else user
            if not name or set(name) & set("+#/") or (not made and name.startswith("$")):
                return None
            made, text = made + name, text[2:]
        else:
            made, text = made + text[0], text[1:]
    return made


def naive(written: list[str], client_id: str, user: str | None, wanted: str, topic: str) -> bool:
    """Whether `wanted` (read or write) is granted: the documented rules, one line at a time."""
    section: str | None = None
    allowed = denied = False
    for line in written:
        word, _blank, rest = line.partition(" ")
        if word == "user":
            section = rest
        if word not in ("topic", "pattern"):
            continue
        access, blank, text = rest.partition(" ")
        if not blank:
            access, text = "readwrite", rest
        mine: str | None = text
        if word == "topic":
            if section != user:
                continue
        else:
            if user is None and "%u" in text:
                continue
            mine = filled(text, client_id, user)
            if mine is None:
                denied = denied or access == "deny"
                continue
        if mine is not None and matches(mine, topic):
            denied = denied or access == "deny"
            allowed = allowed or wanted in access
    return allowed and not denied


@given(st.lists(lines, max_size=8), names, st.none() | names, st.lists(st.sampled_from(TOPICS), max_size=12))
def test_rights_equal_a_naive_reading_of_the_file(
    written: list[str], client_id: str, user: str | None, topics: list[str]
) -> None:
    client = Rules.parse(written, "acl").for_client(client_id, user)
    for topic in filter(None, topics):
        raw = topic.encode()
        readable = naive(written, client_id, user, "read", topic)
        writable = naive(written, client_id, user, "write", topic)
        for _again in range(2):  # the second answer comes from memory
            assert client.may_receive(raw) == readable, (topic, client.explain("receive", raw))
            assert client.may_publish(raw) == writable, (topic, client.explain("publish", raw))
        assert ("allowed by acl:" in client.explain("receive", raw)) == readable
        assert ("allowed by acl:" in client.explain("publish", raw)) == writable
        assert client.may_subscribe(parse_filter(raw)) == readable, topic


@given(st.lists(lines, max_size=8), names, st.none() | names, filter_texts)
def test_a_subscription_that_could_deliver_something_is_never_refused(
    written: list[str], client_id: str, user: str | None, wanted: str
) -> None:
    client = Rules.parse(written, "acl").for_client(client_id, user)
    deliverable = [topic for topic in TOPICS if topic and matches(wanted, topic) and client.may_receive(topic.encode())]
    accepted = client.may_subscribe(parse_filter(wanted.encode()))
    assert accepted or not deliverable, (wanted, deliverable)
    assert ("allowed by acl:" in client.explain("subscribe", wanted.encode())) == accepted
