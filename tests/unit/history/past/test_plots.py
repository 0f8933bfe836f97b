"""Plots against brute force: the least, most and last number of each column."""

import json
from typing import Any

import pytest

from tests.unit.history.past.questioner import Questioner
from tests.unit.history.past.test_messages import publish
from tests.unit.storage.rocks.log.store import SECOND_US, Store


def test_a_plot_has_least_most_last_and_count_of_each_column(store: Store) -> None:
    values = [3, 1, 2, -5, 10, 4.5, 7, 0]
    begin_us = store.clock.wall_us()
    for number, value in enumerate(values):
        publish(store, b"a", json.dumps({"in": [value]}).encode())
        if number == 3:
            publish(store, b"a", b"no number", b'{"in": ["text"]}')
    end_us = store.clock.wall_us() + SECOND_US
    with Questioner(store.folder) as ask:
        answer = ask("plot", topic=["a", "b"], path="$.in[0]", from_=begin_us, to=end_us, points=3)
        step_us = answer["step_us"]
        assert step_us * 3 >= end_us - begin_us > step_us * 2
        a, b = answer["series"]
        assert (a["topic"], a["not_numbers"], b["topic"], b["columns"]) == ("a", 2, "b", [])
        expected: dict[int, list[tuple[int, float]]] = {}
        for message in store.written:
            if message.payload.startswith(b'{"in": [') and b"text" not in message.payload:
                index = (message.position_us - begin_us) // step_us
                expected.setdefault(index, []).append((message.position_us, json.loads(message.payload)["in"][0]))
        assert a["columns"] == [
            [begin_us + index * step_us, min(n for _at, n in own), max(n for _at, n in own), max(own)[1], len(own)]
            for index, own in sorted(expected.items())
        ]
        assert answer["stopped"] == "end"
        plain = ask("plot", topic="a", path="$")
        assert plain["series"][0]["not_numbers"] == 10


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({}, "topic"),
        ({"topic": "a/#"}, "topic"),
        ({"topic": [f"t{number}" for number in range(9)]}, "topic"),
        ({"topic": "a", "path": "$.a["}, "path"),
        ({"topic": "a", "path": "a"}, "path"),
        ({"topic": "a", "points": 2001}, "points"),
    ],
)
def test_a_wrong_plot_is_refused(ask: Questioner, params: Any, parameter: str) -> None:
    assert ask.refused("plot", **params).parameter == parameter
