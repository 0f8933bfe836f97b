"""What a session is owed, by its subscriptions: without a log and without a store."""

from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord


def record(
    text: str, *, qos: int = 1, since_us: int = 1, no_local: bool = False, identifier: int = 0
) -> SubscriptionRecord:
    return SubscriptionRecord(parse_filter(text.encode()), qos, no_local, False, 0, identifier, since_us)


def rule(*records: SubscriptionRecord, upgrade_qos: bool = False, with_qos0: bool = False) -> OwedRule:
    subscriptions = {each.filter.raw: each for each in records}
    return OwedRule("me", subscriptions, upgrade_qos=upgrade_qos, with_qos0=with_qos0)


def message(topic: str = "a/b", *, qos: int = 1, position_us: int = 10, publisher: str = "other") -> Message:
    made = Message(topic.encode(), b"", qos, ClientId(publisher), 5)
    made.position_us = position_us
    return made


def test_the_highest_qos_and_all_identifiers_of_overlapping_subscriptions_count() -> None:
    both = rule(
        record("a/#", qos=1, identifier=3), record("a/b", qos=2, identifier=4), record("c", qos=2, identifier=5)
    )
    owed = both.owed(message(qos=2))
    assert owed is not None
    assert (owed.qos, owed.identifiers) == (2, (3, 4))
    lower = both.owed(message(qos=1))
    assert lower is not None
    assert lower.qos == 1


def test_qos_0_is_owed_to_history_alone() -> None:
    assert rule(record("a/b", qos=0)).owed(message()) is None
    assert rule(record("a/b")).owed(message(qos=0)) is None
    history = rule(record("a/b"), with_qos0=True).owed(message(qos=0))
    assert history is not None
    assert history.qos == 0


def test_what_came_before_a_subscription_is_not_owed_to_it() -> None:
    late = rule(record("a/b", since_us=11))
    assert late.owed(message(position_us=10)) is None
    assert late.owed(message(position_us=11)) is not None


def test_what_a_client_published_itself_is_not_owed_where_it_asked_for_no_local() -> None:
    mine = rule(record("a/b", no_local=True))
    assert mine.owed(message(publisher="me")) is None
    assert mine.owed(message()) is not None


def test_a_subscription_that_is_replayed_owes_nothing_up_to_where_the_replay_came() -> None:
    replayed = rule(record("a/b"))
    replayed.replayed(b"a/b", None)
    assert replayed.owed(message()) is None
    replayed.replayed(b"a/b", {0: 10})
    assert replayed.owed(message(position_us=10)) is None
    assert replayed.owed(message(position_us=11)) is not None
    replayed.forget(b"a/b")
    assert replayed.owed(message(position_us=10)) is not None


def test_a_subscription_owes_nothing_from_its_end_on() -> None:
    ending = rule(record("a/b"))
    ending.ends(b"a/b", 11)
    assert ending.end_of(b"a/b") == 11
    assert ending.owed(message(position_us=10)) is not None
    assert ending.owed(message(position_us=11)) is None


def test_what_was_sent_before_is_left_out_until_the_session_has_caught_up() -> None:
    resumed = rule(record("a/b"))
    resumed.sent_before({(0, 10)}, {0: 12})
    resumed.skip(message(position_us=11))
    assert resumed.owed(message(position_us=10)) is None
    assert resumed.owed(message(position_us=11)) is None
    again = resumed.owed(message(position_us=12))
    assert again is not None
    assert again.repeated, "an earlier run of the broker may have sent it"
    resumed.caught_up()
    later = resumed.owed(message(position_us=12))
    assert later is not None
    assert not later.repeated


def test_a_changed_subscription_counts_from_the_next_message_on() -> None:
    subscriptions = {b"a/b": record("a/b")}
    changing = OwedRule("me", subscriptions, upgrade_qos=False)
    assert changing.owed(message()) is not None
    del subscriptions[b"a/b"]
    changing.changed(parse_filter(b"a/b"))
    assert changing.owed(message()) is None


def test_very_many_subscriptions_are_found_as_few_are() -> None:
    many = {f"a/{number}".encode(): record(f"a/{number}") for number in range(300)}
    found = OwedRule("me", many, upgrade_qos=False)
    assert found.owed(message("a/299")) is not None
    assert found.owed(message("a/300")) is None
    many[b"a/300"] = record("a/300")
    found.changed(parse_filter(b"a/300"))
    assert found.owed(message("a/300")) is not None


def test_a_subscription_to_everything_is_owed_every_topic_but_those_of_the_broker() -> None:
    subscriptions = {b"#": record("#", identifier=7)}
    everything = OwedRule("me", subscriptions, upgrade_qos=False)
    owed = everything.owed(message("a/b"))
    assert owed is not None
    assert owed.identifiers == (7,)
    assert everything.owed(message("$SYS/a")) is None
    subscriptions[b"a/b"] = record("a/b", qos=0)
    subscriptions[b"$SYS/#"] = record("$SYS/#")
    everything.changed(parse_filter(b"$SYS/#"))
    assert everything.owed(message("$SYS/a")) is not None
    del subscriptions[b"#"]
    everything.changed(parse_filter(b"#"))
    assert everything.owed(message("c")) is None


def test_the_only_subscription_to_everything_keeps_its_options() -> None:
    """No topic is looked at for it; all that the subscription says counts all the same."""
    subscriptions = {b"#": record("#", no_local=True, since_us=11)}
    everything = OwedRule("me", subscriptions, upgrade_qos=False)
    assert everything.owed(message(position_us=10)) is None
    assert everything.owed(message(position_us=11)) is not None
    assert everything.owed(message(position_us=11, publisher="me")) is None
    everything.ends(b"#", 20)
    assert everything.owed(message(position_us=20)) is None
    everything.forget(b"#")
    everything.replayed(b"#", {0: 30})
    assert everything.owed(message(position_us=30)) is None
    assert everything.owed(message(position_us=31)) is not None
    subscriptions[b"#"] = record("#", qos=0)
    everything.changed(parse_filter(b"#"))
    assert everything.owed(message(position_us=31)) is None, "it was replaced"
    subscriptions[b"#"] = record("#", qos=2, identifier=3)
    everything.changed(parse_filter(b"#"))
    owed = everything.owed(message(position_us=31, qos=2))
    assert owed is not None
    assert (owed.qos, owed.identifiers) == (2, (3,))
    subscriptions[b"$share/g/#"] = record("$share/g/#", qos=2)
    everything.changed(parse_filter(b"$share/g/#"))
    owed = everything.owed(message(position_us=32, qos=2))
    assert owed is not None
    assert owed.identifiers == (3,), "a share beside it changes nothing"


def test_wildcards_of_a_mounted_client_leave_out_its_own_dollar_topics() -> None:
    mounted = SubscriptionRecord(parse_filter(b"#"), 1, False, False, 0, 0, 1, mount_bytes=6)
    plant = rule(mounted)
    assert plant.owed(message("plant/a")) is not None
    assert plant.owed(message("plant/$a")) is None


def test_a_share_of_everything_is_not_owed_to_its_member_alone() -> None:
    assert rule(record("$share/g/#")).owed(message()) is None
