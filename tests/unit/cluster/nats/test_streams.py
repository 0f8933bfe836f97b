"""The settings of a log's stream: each one that is wrong is refused by its name."""

import asyncio
import re
from typing import Any

import pytest

from holdfast.cluster.nats.connection import Answer, ApiError, NatsConnection, NatsOptions
from holdfast.cluster.nats.streams import (
    LogStream,
    check_stream,
    describe_absence,
    hears_majority,
    incarnation_of,
    log_streams,
    make_streams,
)
from holdfast.model.errors import SettingsError

STREAM = LogStream("plant", "vnode-0", 1 << 30)


def info(**changes: Any) -> Answer:
    """As a server of version 2.15.1 reports a stream of ours."""
    config = {
        "name": "holdfast-plant-vnode-0",
        "subjects": ["holdfast.plant.vnode-0"],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": 1 << 30,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "new",
        "storage": "file",
        "num_replicas": 3,
        "duplicate_window": 120_000_000_000,
        "compression": "none",
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": True,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "consumer_limits": {},
        "allow_msg_ttl": False,
        "metadata": {"_nats.ver": "2.15.1", "holdfast.incarnation": "0123"},
    }
    return {"config": {**config, **changes}}


def test_a_stream_as_it_was_made_is_accepted() -> None:
    check_stream(STREAM, info())
    assert incarnation_of(info()) == "0123"


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("subjects", ["holdfast.plant.>"], "['holdfast.plant.vnode-0']"),
        ("retention", "workqueue", "'limits'"),
        ("storage", "memory", "'file'"),
        ("num_replicas", 1, "3"),
        ("discard", "old", "'new'"),
        ("max_bytes", -1, "1073741824"),
        ("max_age", 3_600_000_000_000, "0"),
        ("max_msgs", 1000, "-1"),
        ("max_msgs_per_subject", 1, "-1"),
        ("max_msg_size", 1024, "-1"),
        ("max_consumers", 5, "-1"),
        ("compression", "s2", "'none'"),
        ("deny_delete", False, "True"),
        ("allow_direct", True, "False"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_stream_the_value_and_the_right_one(
    key: str, wrong: object, right: str
) -> None:
    words = f"stream holdfast-plant-vnode-0 has {key} = {wrong!r}; right would be {right}"
    with pytest.raises(SettingsError, match=re.escape(words)):
        check_stream(STREAM, info(**{key: wrong}))


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("mirror", {"name": "other"}),
        ("sources", [{"name": "other"}]),
        ("republish", {"src": ">", "dest": "out.>"}),
        ("subject_transform", {"src": "a", "dest": "b"}),
        ("no_ack", True),
        ("sealed", True),
        ("deny_purge", True),
        ("allow_rollup_hdrs", True),
        ("allow_msg_ttl", True),
        ("allow_msg_counter", True),
        ("persist_mode", "async"),
    ],
)
def test_a_setting_that_should_not_be_there_is_refused(key: str, wrong: object) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"has {key} = {wrong!r}; it has to be absent")):
        check_stream(STREAM, info(**{key: wrong}))


@pytest.mark.parametrize("metadata", [None, {}, {"_nats.ver": "2.15.1"}])
def test_a_stream_without_an_incarnation_was_not_made_here(metadata: object) -> None:
    with pytest.raises(SettingsError, match=re.escape("has no holdfast.incarnation")):
        check_stream(STREAM, info(metadata=metadata))


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a>", "x" * 65])
def test_a_name_is_one_token_of_a_subject(name: str) -> None:
    with pytest.raises(SettingsError, match="right would be"):
        LogStream(name, "control", 1)


def test_a_cluster_has_a_stream_for_the_control_log_and_for_each_vnode() -> None:
    streams = log_streams("plant", 2, 1 << 20)
    assert [stream.subject for stream in streams] == [
        "holdfast.plant.control",
        "holdfast.plant.vnode-0",
        "holdfast.plant.vnode-1",
    ]
    assert len({stream.name for stream in streams}) == 3


def reported(leader: str, *replicas: dict[str, object]) -> Answer:
    return {"cluster": {"leader": leader, "replicas": list(replicas)}}


NEAR: dict[str, object] = {"name": "n2", "current": True, "active": 400_000_000}
FAR: dict[str, object] = {"name": "n3", "current": True, "active": 3_500_000_000}
NEVER: dict[str, object] = {"name": "n3", "current": False, "active": 0}
GONE: dict[str, object] = {"name": "n3", "current": False, "active": 100, "offline": True}


def test_a_leader_that_hears_from_no_majority_may_have_a_successor() -> None:
    assert hears_majority(reported("n1", NEAR, FAR))
    for other in (FAR, NEVER, GONE):
        assert not hears_majority(reported("n1", FAR, other))
    assert not hears_majority(reported("", NEAR, NEAR))
    assert hears_majority({})  # one server alone


def test_servers_of_a_stream_that_are_missing_are_named() -> None:
    assert describe_absence(STREAM, reported("n1", NEAR, FAR)) == ""
    assert "no leader" in describe_absence(STREAM, reported("", NEAR, FAR))
    assert "not current on n3" in describe_absence(STREAM, reported("n1", NEAR, GONE))
    assert "2 of 3 servers" in describe_absence(STREAM, reported("n1", NEAR))
    assert "no leader" in describe_absence(STREAM, {})


class AnsweringConnection(NatsConnection):
    """Gives one answer after the other, and notes what was asked."""

    def __init__(self, *answers: Answer | Exception) -> None:
        super().__init__(NatsOptions(("nats://127.0.0.1:1",), "node", "secret"))
        self.answers = list(answers)
        self.asked: list[str] = []

    async def ask(self, call: str, body: Answer | None = None) -> Answer:
        self.asked.append(call.removesuffix(f".{STREAM.name}"))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


MISSING = ApiError(10059, "stream not found")
BEHIND: dict[str, object] = {"name": "n3", "current": False, "active": 100}


def make(*answers: Answer | Exception) -> tuple[int, list[str]]:
    connection = AnsweringConnection(*answers)
    made = asyncio.run(make_streams(connection, [STREAM]))
    assert connection.answers == []
    return made, connection.asked


def test_a_stream_is_made_if_it_is_missing() -> None:
    whole = {**info(), **reported("n1", NEAR, FAR)}
    assert make(MISSING, info(), whole) == (1, ["STREAM.INFO", "STREAM.CREATE", "STREAM.INFO"])
    assert make(whole, whole) == (0, ["STREAM.INFO", "STREAM.INFO"])


def test_making_streams_waits_until_they_are_current_on_all_servers() -> None:
    whole, behind = {**info(), **reported("n1", NEAR, FAR)}, {**info(), **reported("n1", NEAR, BEHIND)}
    assert make(behind, behind, whole, whole)[0] == 0


def test_a_stream_that_another_one_makes_at_the_same_time_is_made_once() -> None:
    whole = {**info(), **reported("n1", NEAR, FAR)}
    assert make(MISSING, ApiError(10058, "name in use"), whole)[0] == 0


def test_a_stream_with_other_settings_is_neither_made_nor_changed() -> None:
    with pytest.raises(SettingsError, match="discard = 'old'"):
        make(info(discard="old"))
