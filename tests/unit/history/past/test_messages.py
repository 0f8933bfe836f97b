"""Messages against brute force over all that was published: both ways, by client, by payload, page by page."""

import json
from base64 import b64decode
from typing import Any

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from tests.unit.history.past.past_folder import ERASED_CLIENT, FILTERS, PastFolder, place_of, places_of
from tests.unit.history.past.questioner import Questioner
from tests.unit.storage.rocks.log.store import Store


def places(answer: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Position and shard of each message."""
    found: list[tuple[int, int]] = []
    for message in answer:
        shard, position_us, _serial = map(int, message["place"].split("/"))
        assert message["at_us"] == position_us
        found.append((position_us, shard))
    return found


def bytes_of(shown: dict[str, Any]) -> bytes:
    return shown["text"].encode() if "text" in shown else b64decode(shown["base64"])


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("limit", [7, 1000])
def test_pages_both_ways_hold_each_message_once(past: PastFolder, ask: Questioner, text: str, limit: int) -> None:
    wanted = places_of(past.expected(text))
    assert places(ask.pages("messages", "messages", filter=text, limit=limit)) == wanted[::-1]
    assert places(ask.pages("messages", "messages", filter=text, limit=limit, direction="newer")) == wanted


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_moment_includes_its_own_message_and_a_range_not_its_end(
    past: PastFolder, ask: Questioner, share: float
) -> None:
    written = past.expected()
    at_us = written[int(len(written) * share)].position_us
    older = ask("messages", at=at_us, limit=5)["messages"]
    newer = ask("messages", at=at_us, limit=5, direction="newer")["messages"]
    assert places(older) == places_of(past.expected(before_us=at_us + 1))[:-6:-1]
    assert places(newer) == places_of(past.expected(from_us=at_us + 1))[:5]
    inside = ask.pages("messages", "messages", from_=written[5].position_us, to=at_us, limit=100)
    assert places(inside) == places_of(past.expected(from_us=written[5].position_us, before_us=at_us))[::-1]


def test_a_message_is_shown_as_it_was_published(past: PastFolder, ask: Questioner) -> None:
    by_place = {place_of(message): message for message in past.store.written}
    for shown in ask.pages("messages", "messages", limit=1000):
        (place,) = places([shown])
        message = by_place[place]
        assert bytes_of(shown["topic"]) == message.topic
        assert bytes_of(shown["payload"]) == message.payload
        assert shown["bytes"] == len(message.payload)
        assert (shown["qos"], shown["retain"]) == (message.qos, message.retain)
        assert (shown["client"], shown["received_us"]) == (message.publisher, message.received_us)
        assert shown["zone"] == ("machines" if message.topic.startswith((b"plant/7/", b"plant/8/")) else "default")
        assert shown["properties"].get("expires_us", 0) == message.expires_us


def test_what_was_erased_is_never_shown(past: PastFolder, ask: Questioner) -> None:
    erased = [place_of(message) for message in past.store.written if past.is_erased(message)]
    assert erased
    shown = places(ask.pages("messages", "messages", client=ERASED_CLIENT, limit=1000))
    assert not set(shown) & set(erased)
    assert shown == [place_of(one) for one in reversed(past.expected()) if one.publisher == ERASED_CLIENT]


def test_a_client_and_a_zone_choose_their_own(past: PastFolder, ask: Questioner) -> None:
    shown = ask.pages("messages", "messages", client="publisher-1", filter="plant/#", limit=50)
    wanted = [one for one in past.expected("plant/#") if one.publisher == "publisher-1"]
    assert places(shown) == places_of(wanted)[::-1]
    shown = ask.pages("messages", "messages", zone="machines", limit=1000)
    wanted = [one for one in past.expected() if one.topic.startswith((b"plant/7/", b"plant/8/"))]
    assert places(shown) == places_of(wanted)[::-1]


def test_a_text_in_payloads_is_found(past: PastFolder, ask: Questioner) -> None:
    answer = ask("messages", payload="e", limit=1000)
    wanted = [one for one in past.expected() if b"e" in one.payload]
    assert places(answer["messages"]) == places_of(wanted)[::-1]
    assert answer["looked_through"] == len(past.expected())
    assert answer["of"] == len(past.store.written), "erased and $-topics count, too: serials tell"
    assert answer["stopped"] == "end"


def publish(store: Store, topic: bytes, *payloads: bytes, **how: Any) -> None:
    for payload in payloads:
        store.clock.advance(1_000_000)
        store.write(Message(topic, payload, 1, ClientId("c"), store.clock.wall_us(), **how))
    store.settle()


def test_a_condition_on_a_json_path_is_found(store: Store) -> None:
    values = [json.dumps({"t": number, "in": [{"x y": f"v{number}"}]}).encode() for number in range(20)]
    publish(store, b"a", *values, b"no json", b"\xff\xfe", b'{"t": "5"}')
    with Questioner(store.folder) as ask:
        for text, wanted in [
            ("$.t > 17", values[18:]),
            ("$.t<=1", values[:2]),
            ("$.t = 5", values[5:6]),
            ('$.t = "5"', [b'{"t": "5"}']),
            ('$["in"][0]["x y"] = v7', values[7:8]),
            ('$.in[0]["x y"] contains "v1"', [values[1], *values[10:]]),
        ]:
            found = ask("messages", payload=text, direction="newer")["messages"]
            assert [one["payload"]["text"].encode() for one in found] == wanted, text


def test_payloads_and_names_of_any_bytes_are_shown(store: Store) -> None:
    name = b"x" * 65_535
    publish(store, name, b"\xff\x00")
    publish(store, b"a\x01/\xe2\x80\xae", b"\x00", b"tab\tand\nline", "é".encode() * 4_000)
    with Questioner(store.folder) as ask:
        *shown, invalid = ask("messages")["messages"]
        assert invalid["topic"] == {"text": name.decode()}
        assert invalid["payload"] == {"base64": "/wA="}
        assert [bytes_of(one["topic"]) for one in shown] == [b"a\x01/\xe2\x80\xae"] * 3
        assert shown[2]["payload"] == {"base64": "AA=="}
        assert shown[1]["payload"] == {"text": "tab\tand\nline"}
        assert shown[0]["payload"] == {"text": "é" * 2048, "cut": True, "bytes": 8000}
        full = ask("messages", full=1)["messages"]
        assert full[0]["payload"] == {"text": "é" * 4000}


def test_retention_that_passes_what_is_not_read_yet_is_an_error_that_names_the_border(store: Store) -> None:
    publish(store, b"a", *[b"%d" % number for number in range(10)])
    store.rotate()
    publish(store, b"a", *[b"%d" % number for number in range(10, 20)])
    with Questioner(store.folder) as ask:
        newest = ask("messages", limit=15)
        oldest = ask("messages", limit=5, direction="newer")
        above = ask("messages", limit=15, direction="newer")
        store.drop_oldest()
        border_us = store.zone_log().live[0].record.start_us
        for answer, direction in ((newest, "older"), (oldest, "newer")):
            refused = ask.refused("messages", cursor=answer["next_cursor"], direction=direction)
            assert (refused.status, refused.code, refused.border_us) == (410, "dropped", border_us)
        rest = ask("messages", cursor=above["next_cursor"], direction="newer")
        assert [one["payload"]["text"] for one in rest["messages"]] == ["15", "16", "17", "18", "19"]
        again = ask("messages")
        assert len(again["messages"]) == 10
        assert again["lost_at_most"] == 10, "what is gone before them is told"
        assert ask("messages", from_=border_us)["lost_at_most"] == 0


def test_messages_that_come_meanwhile_do_not_shift_a_page(store: Store) -> None:
    publish(store, b"a", *[b"%d" % number for number in range(10)])
    with Questioner(store.folder) as ask:
        first = ask("messages", limit=4)
        publish(store, b"a", b"new")
        rest = ask("messages", limit=100, cursor=first["next_cursor"])
        assert [one["payload"]["text"] for one in rest["messages"]] == ["5", "4", "3", "2", "1", "0"]
        assert rest["stopped"] == "end"
        assert rest["next_cursor"] is None


def test_times_outside_of_everything_are_answered_with_what_there_is(store: Store) -> None:
    publish(store, b"a", b"1", b"2")
    with Questioner(store.folder) as ask:
        assert ask("messages", at=0)["messages"] == []
        assert len(ask("messages", at="2999-01-01T00:00:00Z")["messages"]) == 2
        assert ask("messages", at="2999-01-01T00:00:00Z")["ahead"] is True
        assert ask("messages", at="2999-01-01T00:00:00Z", direction="newer")["messages"] == []
        assert len(ask("messages", at="earliest", direction="newer")["messages"]) == 2
        assert ask("messages", at="-1h")["ahead"] is False


@pytest.mark.parametrize(
    ("params", "parameter", "words"),
    [
        ({"nonsense": 1}, "nonsense", "there is no parameter 'nonsense'"),
        ({"filter": "a/#/b"}, "filter", "at character 3"),
        ({"filter": "a/b+/c"}, "filter", "at character 3"),
        ({"filter": "$share/g/a/#"}, "filter", "write the filter alone: 'a/#'"),
        ({"filter": "$replay/-1h/a"}, "filter", "write the filter alone: 'a'"),
        ({"at": "yesterday"}, "at", "ISO 8601"),
        ({"limit": 1001}, "limit", "from 1 to 1000"),
        ({"limit": "\u0661"}, "limit", "from 1 to 1000"),
        ({"direction": "up"}, "direction", "older, newer"),
        ({"cursor": "x"}, "cursor", "at character 1"),
        ({"cursor": "q1-e30AAAAA"}, "cursor", "at character 4"),
        ({"from_": 10, "to": 10}, "to", "behind"),
        ({"payload": "$.a >"}, "payload", "the end stands at character 6; a value would be right there"),
        ({"payload": "$.a[x] > 1"}, "payload", "character 5"),
        ({"payload": "$.a ? 1"}, "payload", "character 4; an operator"),
        ({"full": "yes"}, "full", "0 or 1"),
        ({"limit": [1, 2]}, "limit", "given 2 times"),
    ],
)
def test_a_wrong_parameter_is_named(past: PastFolder, ask: Questioner, params: Any, parameter: str, words: str) -> None:
    assert past.store.written
    refused = ask.refused("messages", **params)
    assert (refused.status, refused.parameter) == (400, parameter)
    assert words in refused.detail
    assert refused.fields()["error"]["parameter"] == parameter  # type: ignore[index]


def test_an_unknown_zone_is_not_found(ask: Questioner) -> None:
    refused = ask.refused("messages", zone="nowhere")
    assert (refused.status, refused.parameter) == (404, "zone")
    assert "default, machines" in refused.detail
