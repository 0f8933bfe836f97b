"""The access file: what each line means, whom it concerns, and what is said about a bad one."""

from pathlib import Path

import pytest

from holdfast.broker.access.rules import Rules
from holdfast.exchange.access import ClientAccess
from holdfast.model.errors import SettingsError
from holdfast.topics.filters import parse_filter

pytestmark = pytest.mark.compiled


def rules(*lines: str) -> Rules:
    return Rules.parse(list(lines), "acl")


def granted(client: ClientAccess, topic: str) -> str:
    return f"{'r' if client.may_receive(topic.encode()) else '-'}{'w' if client.may_publish(topic.encode()) else '-'}"


FILE = """\
# People
topic read public/#

user alice
topic plant/#
topic deny plant/hall 2/safe
\tuser   bob the builder
topic   read   plant/hall 2/#
pattern write devices/%c/up
pattern users/%u/#
user alice
topic write notes
"""


def test_a_file_as_mosquitto_documents_it_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "acl"
    path.write_bytes(FILE.replace("\n", "\r\n").encode())
    loaded = Rules.load(path)
    alice = loaded.for_client("a1", "alice")
    topics = ["public/x", "plant/x", "plant/hall 2/safe", "notes", "devices/a1/up", "devices/b1/up", "users/alice/x"]
    assert [granted(alice, topic) for topic in topics] == ["--", "rw", "--", "-w", "-w", "--", "rw"]
    bob = loaded.for_client("b1", "bob the builder")
    topics = ["plant/x", "plant/hall 2/safe", "devices/b1/up", "users/bob the builder", "users/alice", "notes"]
    assert [granted(bob, topic) for topic in topics] == ["--", "r-", "-w", "rw", "--", "--"]


def test_the_general_section_is_for_clients_without_a_user_name_only() -> None:
    loaded = rules("topic read public/#", "user alice", "topic read private/#")
    assert granted(loaded.for_client("c", None), "public/x") == "r-"
    assert granted(loaded.for_client("c", None), "private/x") == "--"
    assert granted(loaded.for_client("c", "alice"), "public/x") == "--"
    assert granted(loaded.for_client("c", "carol"), "private/x") == "--"


def test_a_pattern_is_for_everybody_wherever_it_stands() -> None:
    loaded = rules("user alice", "pattern read all/#", "pattern write up/%c", "topic read x")
    for user in (None, "alice", "carol"):
        client = loaded.for_client("c", user)
        assert [granted(client, topic) for topic in ("all/x", "up/c", "up/d")] == ["r-", "-w", "--"]


def test_a_pattern_with_a_user_name_does_not_concern_clients_without_one() -> None:
    loaded = rules("topic readwrite #", "pattern deny secret/%u", "pattern read $users/%u/#")
    anonymous = loaded.for_client("c", None)
    assert granted(anonymous, "secret/x") == "rw"
    assert granted(anonymous, "$users//x") == "--"


def test_a_pattern_that_denies_wins_over_a_topic_that_grants() -> None:
    client = rules("user alice", "topic readwrite #", "pattern deny +/%u/locked").for_client("c", "alice")
    assert granted(client, "x/alice/locked") == "--"
    assert granted(client, "x/bob/locked") == "rw"


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a+", "#a", "/", "", "a/#"])
def test_a_name_with_a_wildcard_or_a_level_gets_nothing_from_a_pattern(name: str) -> None:
    loaded = rules("pattern readwrite clients/%c/#", "pattern readwrite users/%u", "pattern read all/#")
    for client in (loaded.for_client(name, "alice"), loaded.for_client("c", name)):
        assert granted(client, "all/x") == "r-"
        reached = {
            topic
            for topic in (f"clients/{name}/x", f"users/{name}", "clients/a/b/x", "clients/x/x", "users/x", "users/a/b")
            if granted(client, topic) != "--"
        }
        assert reached == set()
    assert granted(loaded.for_client(name, "alice"), "users/alice") == "rw"
    assert granted(loaded.for_client("c", name), "clients/c") == "rw"
    assert not loaded.for_client(name, None).may_subscribe(parse_filter(b"clients/#"))


@pytest.mark.parametrize("name", ["+", "a/b", ""])
def test_a_name_cannot_be_chosen_to_escape_a_pattern_that_denies(name: str) -> None:
    loaded = rules("user alice", "topic readwrite #", "topic read $SYS/#", "pattern deny inbox/%c")
    client = loaded.for_client(name, "alice")
    assert [granted(client, topic) for topic in (f"inbox/{name}", "x", "$SYS/x")] == ["--", "--", "--"]
    assert "acl:4: pattern deny inbox/%c cannot be applied, as the client id" in client.explain("publish", b"x")
    assert granted(loaded.for_client("c", "alice"), "x") == "rw"


def test_a_name_does_not_open_the_dollar_topics() -> None:
    loaded = rules("pattern readwrite %c/#", "pattern readwrite $SYS/%c/#")
    client = loaded.for_client("$SYS", None)
    assert granted(client, "$SYS/broker") == "--"
    assert granted(client, "$SYS/$SYS/x") == "rw"


def test_a_placeholder_inside_a_name_is_not_filled_in() -> None:
    loaded = rules("pattern readwrite c/%c/%u", "topic readwrite t/%c")
    client = loaded.for_client("%u", "%c")
    assert granted(client, "c/%u/%c") == "rw"
    assert granted(client, "c/%c/%c") == "--"
    assert granted(loaded.for_client("x", None), "t/%c") == "rw"
    assert granted(loaded.for_client("x", None), "t/x") == "--"


def test_a_placeholder_may_be_a_part_of_a_level_and_stand_twice() -> None:
    client = rules("pattern read dev-%c-%u/%c").for_client("7", "alice")
    assert granted(client, "dev-7-alice/7") == "r-"
    assert granted(client, "dev-7-alice/8") == "--"


def test_a_denial_names_the_rule_or_what_was_missing() -> None:
    loaded = rules("user alice", "topic read a/#", "topic deny  a/secret", "pattern write up/%c")
    alice = loaded.for_client("c+", "alice")
    assert alice.explain("receive", b"a/secret") == "receive 'a/secret' is denied by acl:3: topic deny  a/secret"
    assert alice.explain("publish", b"up/c") == (
        "publish 'up/c' is denied: no rule of acl allows it to user 'alice'; "
        "acl:4 does not apply, as the client id 'c+' contains '+'"
    )
    nobody = loaded.for_client("c", None)
    assert nobody.explain("publish", b"x") == (
        "publish 'x' is denied: no rule of acl allows it to a client without a user name"
    )
    assert nobody.explain("publish", b"up/c") == "publish 'up/c' is allowed by acl:4: pattern write up/%c"


def test_an_empty_file_allows_nothing() -> None:
    assert granted(rules("", "# nothing").for_client("c", "alice"), "a") == "--"


def test_rights_stay_apart_from_those_of_other_clients() -> None:
    loaded = rules("topic read a", "pattern read own/%c")
    first, second = loaded.for_client("1", None), loaded.for_client("2", None)
    assert [granted(first, "own/1"), granted(second, "own/1"), granted(second, "own/2")] == ["r-", "--", "r-"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("topics read a", "'topics' begins no rule; write: user <name>, topic [read|write|readwrite|deny] <filter>"),
        ("user", "no name; write: user <name>"),
        ("topic", "no filter; write: topic [read|write|readwrite|deny] <filter>"),
        ("topic read", "no filter; write: topic"),
        ("pattern deny ", "no filter; write: pattern"),
        ("topic raed a", "'raed' is none of read, write, readwrite, deny"),
        ("topic hall 2/a", "a filter with blanks needs one of them in front: topic readwrite hall 2/a"),
        ("topic read a/#/b", "'#' must be the whole last level"),
        ("topic read a # b", "a comment needs its own line"),
        ("pattern read a/+%c", "'+' must be a whole level"),
        ("topic read $share/g/a/#", "rules speak of the filter behind $share and $replay; write: topic read a/#"),
        ("pattern $replay/-1h/%c", "write: pattern readwrite %c"),
        ("topic read $share/g", "is not of the form $share/<group>/<filter>"),
        ("topic read a\0b", "contains U+0000"),
    ],
)
def test_a_bad_line_is_named_with_what_would_be_right(line: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        rules("# fine", "topic read fine", line)
    text = line.strip()
    assert str(refused.value).startswith(f"acl:3: {text!r}: ")
    assert complaint in str(refused.value)


def test_every_wrong_line_is_named() -> None:
    with pytest.raises(SettingsError) as refused:
        rules("topic", "topic read fine", *["nonsense"] * 30)
    named = str(refused.value).splitlines()
    assert [line.split(": ")[0] for line in named[:3]] == ["acl:1", "acl:3", "acl:4"]
    assert named[20:] == ["and 11 more lines are wrong"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the access file .*acl does not exist"):
        Rules.load(tmp_path / "acl")
    (tmp_path / "acl").write_bytes(b"topic read a\ntopic read \xff\n")
    with pytest.raises(SettingsError, match="acl:2: this line is not UTF-8"):
        Rules.load(tmp_path / "acl")
