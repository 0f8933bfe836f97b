"""What a replay may be asked to do, and the command that it becomes."""

from typing import Any

import pytest

from holdfast.console.jobs.replay_request import (
    ReplayRequest,
    broker_target,
    check_replay,
    command_text,
    replay_arguments,
)
from holdfast.console.problems import ProblemError
from holdfast.control.words import ListenerInfo

NOW_US = 1_800_000_000_000_000
FIELDS: dict[str, Any] = {
    "topic_filter": "plant/#",
    "since": "-1h",
    "until": "latest",
    "speed": "10",
    "prefix": "replayed",
    "confirm": "",
    "user": "",
    "now_us": NOW_US,
}


def check(**fields: str) -> ReplayRequest:
    return check_replay(**(FIELDS | fields))


def test_times_are_resolved_once_and_the_prefix_gets_its_slash() -> None:
    request = check()
    assert (request.from_us, request.until_us, request.prefix) == (NOW_US - 3_600_000_000, NOW_US, "replayed/")


def test_the_end_is_not_ahead_of_now_so_that_no_copy_is_copied() -> None:
    assert check(until=str(NOW_US + 5)).until_us == NOW_US


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"topic_filter": ""}, "filter"),
        ({"topic_filter": "a/#/b"}, "filter"),
        ({"topic_filter": "$share/g/a"}, "filter"),
        ({"topic_filter": "$replay/-1h/a"}, "filter"),
        ({"topic_filter": "a\0b"}, "filter"),
        ({"since": ""}, "from"),
        ({"since": "soon"}, "from"),
        ({"since": "latest"}, "from"),
        ({"until": "soon"}, "until"),
        ({"speed": "0"}, "speed"),
        ({"speed": "0.0"}, "speed"),
        ({"speed": "-1"}, "speed"),
        ({"speed": "nan"}, "speed"),
        ({"speed": "1e3"}, "speed"),
        ({"speed": "\u0661"}, "speed"),
        ({"prefix": "a/#"}, "prefix"),
        ({"prefix": "$SYS"}, "prefix"),
        ({"prefix": "a\0"}, "prefix"),
        ({"prefix": ""}, "confirm"),
        ({"prefix": "", "confirm": "plant"}, "confirm"),
        ({"user": "a\0"}, "user"),
        ({"user": "a" * 65_536}, "user"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_its_field(fields: dict[str, str], parameter: str) -> None:
    with pytest.raises(ProblemError) as found:
        check(**fields)
    assert (found.value.status, found.value.parameter) == (400, parameter)


def test_the_topics_themselves_only_after_the_filter_was_typed_once_more() -> None:
    request = check(prefix="", confirm="plant/#")
    assert request.prefix == ""
    assert "--to-same-topics" in replay_arguments(request, [], "", password=False)


def test_names_of_any_kind_are_no_options_and_no_shell() -> None:
    request = check(topic_filter="--help", prefix="-x; rm -rf /", user="--insecure")
    words = replay_arguments(request, ["--port=1"], "0:5", password=True)
    assert words[-2:] == ["--", "--help"]
    assert "--user=--insecure" in words
    assert "--to-prefix=-x; rm -rf /" in words
    assert "--after=0:5" in words
    assert "'--to-prefix=-x; rm -rf /'" in command_text(words)


def test_the_same_replay_is_recognised_by_its_range_or_by_the_words_that_asked_for_it() -> None:
    first = check()
    assert first.is_same(check(now_us=NOW_US + 7, speed="1"))  # type: ignore[arg-type]
    assert first.is_same(check(since=str(first.from_us), until=str(first.until_us)))
    assert not first.is_same(check(since="-2h"))
    assert not first.is_same(check(prefix="other"))
    assert not first.is_same(check(topic_filter="plant/+"))


def listener(kind: str, port: int, **more: Any) -> ListenerInfo:
    return ListenerInfo(kind, kind, more.pop("host", "127.0.0.1"), port, 0, **more)


def test_a_job_reaches_the_broker_by_a_listener_that_shows_all_topics() -> None:
    plain, secure = listener("tcp", 1, host="0.0.0.0"), listener("tls", 2, host="10.0.0.1")
    mounted, proxied = listener("tcp", 3, mount_point="a/"), listener("tcp", 4, proxy_protocol=True)
    assert broker_target([mounted, proxied, secure, plain]) == ["--host=127.0.0.1", "--port=1"]
    assert broker_target([mounted, secure]) == ["--host=10.0.0.1", "--port=2", "--insecure"]
    with pytest.raises(ProblemError, match="no listener"):
        broker_target([mounted, proxied, listener("ws", 5)])
