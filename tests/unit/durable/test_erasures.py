"""What an erasure covers, and what it does not."""

from holdfast.durable.erasures import Erasure, Erasures, no_erasures
from holdfast.topics.filters import parse_filter


def of_client(client: str, **up_to: int) -> Erasure:
    return Erasure(client, (), {int(shard[1:]): at for shard, at in up_to.items()}, 500, "test")


def of_topics(text: str, **up_to: int) -> Erasure:
    return Erasure("", parse_filter(text.encode()).levels, {int(s[1:]): at for s, at in up_to.items()}, 500, "test")


def test_a_client_is_hidden_up_to_a_position_of_each_shard() -> None:
    erasures = Erasures([of_client("a", s0=100, s1=50)])
    assert erasures.hides(0, 100, b"t", "a")
    assert not erasures.hides(0, 101, b"t", "a"), "what it publishes later is shown"
    assert not erasures.hides(1, 100, b"t", "a"), "each shard has a position of its own"
    assert not erasures.hides(2, 1, b"t", "a"), "a shard that is not named was empty"
    assert not erasures.hides(0, 100, b"t", "b")


def test_topics_are_hidden_as_a_filter_matches_them() -> None:
    erasures = Erasures([of_topics("plant/+/temp", s0=100), of_topics("#", s0=10)])
    assert erasures.hides(0, 100, b"plant/1/temp", "a")
    assert not erasures.hides(0, 100, b"plant/1/flow", "a")
    assert erasures.hides(0, 10, b"plant/1/flow", "a")
    assert not erasures.hides(0, 10, b"$own/1", "a"), "`#` does not match those"


def test_nobody_asks_where_nothing_is_hidden() -> None:
    erasures = Erasures([of_client("a", s0=100), of_topics("t", s0=200, s1=5)])
    assert (erasures.may_hide(0, 200), erasures.may_hide(0, 201), erasures.may_hide(1, 6)) == (True, False, False)
    assert not no_erasures().may_hide(0, 0)


def test_a_retained_message_without_a_place_is_covered_by_its_time() -> None:
    erasures = Erasures([of_client("a", s0=100), of_topics("t/#", s0=100)])
    assert erasures.hides_retained(0, 0, 500, b"x", "a")
    assert not erasures.hides_retained(0, 0, 501, b"x", "a")
    assert erasures.hides_retained(0, 0, 500, b"t/1", "b")
    assert not erasures.hides_retained(0, 101, 400, b"t/1", "a"), "one that has a place is covered by it"
