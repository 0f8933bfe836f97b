"""States, comparisons and plots against brute force over all that was published."""

from typing import Any

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from tests.unit.history.past.past_folder import FILTERS, PastFolder
from tests.unit.history.past.questioner import Questioner
from tests.unit.history.past.test_messages import bytes_of, places, publish
from tests.unit.storage.rocks.log.store import SECOND_US, Store

YEAR_S = 365 * 24 * 3600


def newest(messages: list[Message]) -> dict[bytes, Message]:
    """Brute force: by topic."""
    return {message.topic: message for message in messages}


def shown_places(topics: list[dict[str, Any]]) -> dict[bytes, tuple[int, int]]:
    return {bytes_of(one["topic"]): places([one])[0] for one in topics}


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_the_state_at_a_moment_is_what_was_published_until_then(
    past: PastFolder, ask: Questioner, text: str, share: float
) -> None:
    written = past.expected()
    at_us = written[min(int(len(written) * share), len(written) - 1)].position_us
    answer = ask("state", filter=text, at=at_us, look_back_s=YEAR_S)
    wanted = newest(past.expected(text, before_us=at_us + 1))
    assert shown_places(answer["topics"]) == {topic: (one.position_us, one.shard) for topic, one in wanted.items()}
    assert [one["age_us"] for one in answer["topics"]] == [at_us - one["at_us"] for one in answer["topics"]]
    assert answer["complete"] is True
    assert answer["stopped"] == "end"


@pytest.mark.parametrize("back_s", [1, 91, 1_000])
def test_a_state_looks_back_so_far_and_no_further(past: PastFolder, ask: Questioner, back_s: int) -> None:
    at_us = past.expected()[-1].position_us
    from_us = at_us - back_s * SECOND_US + 1
    answer = ask("state", at=at_us, look_back_s=back_s)
    assert shown_places(answer["topics"]).keys() == newest(past.expected(from_us=from_us)).keys()
    first_us = min(message.position_us for message in past.store.written)
    if answer["stopped"] == "look_back":
        assert answer["looked_back_to_us"] == from_us > first_us
    else:
        assert answer["stopped"] == "end"


def test_a_state_of_too_many_topics_says_so(past: PastFolder, ask: Questioner) -> None:
    at_us = past.expected()[-1].position_us
    answer = ask("state", at=at_us, look_back_s=YEAR_S, limit=3)
    assert (len(answer["topics"]), answer["stopped"], answer["complete"]) == (3, "topics", False)
    assert answer["topics"][0]["at_us"] == at_us, "the newest are there"


def test_the_retained_state_is_that_of_messages_with_the_flag(past: PastFolder, ask: Questioner) -> None:
    at_us = past.expected()[-1].position_us
    answer = ask("state", at=at_us, look_back_s=YEAR_S, retained=1)
    flagged = newest([message for message in past.expected() if message.retain])
    wanted = {topic: (one.position_us, one.shard) for topic, one in flagged.items() if one.payload}
    assert wanted
    assert shown_places(answer["topics"]) == wanted


@pytest.mark.parametrize(("first", "second"), [(0.2, 0.8), (0.9, 0.1), (0.5, 0.5)])
def test_a_comparison_names_what_came_fell_silent_and_changed(
    past: PastFolder, ask: Questioner, first: float, second: float
) -> None:
    written = past.expected()
    a_us, b_us = [written[int(len(written) * share)].position_us for share in (first, second)]
    answer = ask("compare", a=a_us, b=b_us, look_back_s=YEAR_S)
    a, b = [newest(past.expected(before_us=at_us + 1)) for at_us in (a_us, b_us)]
    assert {bytes_of(one["topic"]) for one in answer["came"]} == b.keys() - a.keys()
    assert {bytes_of(one["topic"]) for one in answer["silent"]} == a.keys() - b.keys()
    both = a.keys() & b.keys()
    changed = {topic for topic in both if a[topic].payload != b[topic].payload}
    assert {bytes_of(one["topic"]) for one in answer["changed"]} == changed
    assert answer["same"] == len(both) - len(changed)


def test_of_json_only_the_paths_that_differ_are_told(store: Store) -> None:
    publish(store, b"a", b'{"t": 1, "s": {"on": true, "x y": [1, 2]}, "same": 0}')
    publish(store, b"b", b"1", b"text")
    a_us = store.clock.wall_us()
    publish(store, b"a", b'{"t": 2, "s": {"on": 1, "x y": [1, 3, 4]}, "same": 0}')
    publish(store, b"b", b"2")
    with Questioner(store.folder) as ask:
        answer = ask("compare", a=a_us, b=store.clock.wall_us() + 1_000)
        b, a = sorted(answer["changed"], key=lambda one: len(one["paths"]))
        assert b["paths"] == []
        assert a["paths"] == [
            {"path": "$.t", "a": 1, "b": 2},
            {"path": "$.s.on", "a": True, "b": 1},
            {"path": '$.s["x y"][1]', "a": 2, "b": 3},
            {"path": '$.s["x y"][2]', "a": None, "b": 4},
        ]


def test_a_state_that_retention_has_cut_is_not_complete(store: Store) -> None:
    publish(store, b"a", b"1")
    publish(store, b"b", b"1")
    store.rotate()
    publish(store, b"b", b"2")
    store.drop_oldest()
    store.settle()
    with Questioner(store.folder) as ask:
        answer = ask("state", at=store.clock.wall_us() + 1_000)
        assert [one["topic"]["text"] for one in answer["topics"]] == ["b"]
        assert answer["complete"] is False
        assert ask("state", at=store.clock.wall_us() + 1_000, filter="b")["complete"] is True


@pytest.mark.parametrize("params", [{"a": "-1h"}, {"b": "-1h"}, {"a": "x", "b": "-1h"}, {"a": 1, "b": 1, "c": 1}])
def test_a_wrong_comparison_is_refused(ask: Questioner, params: Any) -> None:
    assert ask.refused("compare", **params).status == 400


def test_large_payloads_are_compared_too(store: Store) -> None:
    publish(store, b"a", bytes(2 << 20))
    a_us = store.clock.wall_us()
    store.clock.advance(SECOND_US)
    store.write(Message(b"a", bytes(2 << 20) + b"\x01", 1, ClientId("c"), store.clock.wall_us()))
    store.settle()
    with Questioner(store.folder) as ask:
        answer = ask("compare", a=a_us + 1_000, b=store.clock.wall_us() + 1_000)
        assert [(one["a"]["bytes"], one["b"]["bytes"]) for one in answer["changed"]] == [(2 << 20, (2 << 20) + 1)]
