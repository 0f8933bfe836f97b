"""The JetStream stream of an ordered log: one stream with one subject for each log.

Every setting that the contract of the log rests on is in `_required`. `make_streams` makes streams with exactly these,
and a node that opens a log reads them back: an operator, or another program with the same credentials, may have changed
them since.
"""

import asyncio
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.cluster.nats.connection import NO_STREAM, Answer, ApiError, NatsConnection
from holdfast.model.errors import SettingsError, TransientError

#: The copies of every log: it survives the loss of one server.
COPIES: Final = 3
#: Key of the incarnation in a stream's metadata. Never change.
INCARNATION: Final = "holdfast.incarnation"
#: Error of JetStream: the name is in use, with other settings.
_NAME_IN_USE: Final = 10058
#: Seconds between two looks at a stream whose servers are not all there yet.
_LOOK_AGAIN_S: Final = 0.1
#: Below the four seconds that a server waits for its leader before it votes for another one.
_HEARD_NS: Final = 3_000_000_000
#: A name that is a stream, a folder and one token of a subject.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: What a stream of ours does not have. JetStream leaves out what is not set.
_ABSENT: Final = (
    *("mirror", "sources", "republish", "subject_transform", "placement", "persist_mode"),
    *("no_ack", "sealed", "deny_purge", "discard_new_per_subject", "allow_rollup_hdrs", "mirror_direct"),
    *("allow_msg_ttl", "allow_msg_counter", "allow_msg_schedules", "subject_delete_marker_ttl"),
)


@dataclass(frozen=True)
class LogStream:
    """The stream of one log. `copies` is 3, except in tests with a single server."""

    cluster: str
    log: str
    limit_bytes: int
    copies: int = COPIES

    def __post_init__(self) -> None:
        for what, name in (("cluster", self.cluster), ("log", self.log)):
            if not _NAME.fullmatch(name):
                raise SettingsError(
                    f"the name of a {what} is {name!r}; right would be 1 to 64 letters, digits, dashes and underscores"
                )
        if self.limit_bytes <= 0:
            raise SettingsError(f"cluster.stream_bytes is {self.limit_bytes}; it has to be above 0")

    @property
    def name(self) -> str:
        return f"holdfast-{self.cluster}-{self.log}"

    @property
    def subject(self) -> str:
        return f"holdfast.{self.cluster}.{self.log}"


def log_streams(cluster: str, vnodes: int, limit_bytes: int) -> list[LogStream]:
    """All streams of a cluster: that of the control log, then one for each vnode."""
    logs = ["control", *[f"vnode-{number}" for number in range(vnodes)]]
    return [LogStream(cluster, log, limit_bytes) for log in logs]


def _required(stream: LogStream) -> Answer:
    """The settings, with the names of the JetStream API."""
    return {
        "name": stream.name,
        "subjects": [stream.subject],
        "retention": "limits",
        "storage": "file",
        "num_replicas": stream.copies,
        # A full log refuses records; it must not forget old ones.
        "discard": "new",
        "max_bytes": stream.limit_bytes,
        "max_age": 0,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "max_consumers": -1,
        "compression": "none",
        # A message that is deleted in the middle would leave a gap. A trim is a purge.
        "deny_delete": True,
        # A direct get is answered by any copy, also by one that is behind.
        "allow_direct": False,
    }


# ---- making


async def make_streams(connection: NatsConnection, streams: Sequence[LogStream], patience_s: float = 60.0) -> int:
    """Make the streams that are missing; how many these were. The existing ones are checked, and stay as they are.

    Ensures: every stream has the required settings, and is current on all its servers.
    TransientError: not within `patience_s`; whatever was made stays, and the next call goes on from there.
    SettingsError: a stream exists with other settings.
    """
    made = 0
    why = "no attempt was made"
    try:
        async with asyncio.timeout(patience_s):
            for stream in streams:
                while True:
                    try:
                        made += await _make(connection, stream)
                        why = describe_absence(stream, await stream_info(connection, stream))
                    except TransientError as error:
                        why = str(error)
                    if not why:
                        break
                    await asyncio.sleep(_LOOK_AGAIN_S)
    except TimeoutError:
        raise TransientError(f"the streams are not ready after {patience_s:g} s: {why}") from None
    return made


async def _make(connection: NatsConnection, stream: LogStream) -> bool:
    """Whether it was made here. TransientError if it cannot be, yet."""
    try:
        info = await connection.ask(f"STREAM.INFO.{stream.name}")
    except ApiError as missing:
        if missing.code != NO_STREAM:
            raise
    else:
        check_stream(stream, info)
        return False
    try:
        wanted = {**_required(stream), "metadata": {INCARNATION: secrets.token_hex(16)}}
        await connection.ask(f"STREAM.CREATE.{stream.name}", wanted)
    except ApiError as refused:
        if refused.code != _NAME_IN_USE:
            raise
        return False  # another one made it meanwhile
    return True


# ---- checking


async def stream_info(connection: NatsConnection, stream: LogStream) -> Answer:
    """What JetStream reports. TransientError: its servers do not answer, or there is no such stream."""
    try:
        return await connection.ask(f"STREAM.INFO.{stream.name}")
    except ApiError as refused:
        if refused.code != NO_STREAM:
            raise
        raise MissingStreamError(
            f"there is no stream {stream.name}; for a new cluster `holdfast cluster init` makes it, once, when all "
            "servers are there; one that had it has lost records: see the runbook before anything is made"
        ) from refused


class MissingStreamError(TransientError):
    """The servers know no such stream."""


def check_stream(stream: LogStream, info: Answer) -> None:
    """SettingsError: a setting of the stream is not the required one."""
    found: dict[str, Any] = info.get("config", {})
    for key, right in _required(stream).items():
        if found.get(key) != right:
            raise _wrong(stream, key, found.get(key), right)
    for key in _ABSENT:
        if found.get(key):
            raise _wrong(stream, key, found[key], None)
    if not incarnation_of(info):
        raise SettingsError(
            f"stream {stream.name} has no {INCARNATION} in its metadata, so it was not made by `holdfast cluster init`"
        )


def _wrong(stream: LogStream, key: str, found: object, right: object) -> SettingsError:
    should = "it has to be absent" if right is None else f"right would be {right!r}"
    return SettingsError(f"stream {stream.name} has {key} = {found!r}; {should}")


def incarnation_of(info: Answer) -> str:
    """The incarnation of a log; empty if the stream has none."""
    return str((info.get("config", {}).get("metadata") or {}).get(INCARNATION, ""))


def describe_absence(stream: LogStream, info: Answer) -> str:
    """Which servers of a stream are missing or behind; empty if none is."""
    cluster = info.get("cluster") or {}
    if not cluster.get("leader"):
        return "" if stream.copies == 1 and not cluster else f"stream {stream.name} has no leader"
    replicas = cluster.get("replicas") or []
    away = missing_servers(info)
    if away:
        return f"stream {stream.name} is not current on {', '.join(away)}"
    if len(replicas) + 1 < stream.copies:
        return f"stream {stream.name} has {len(replicas) + 1} of {stream.copies} servers"
    return ""


def missing_servers(info: Answer) -> list[str]:
    """The servers of a stream that are offline or behind."""
    replicas = (info.get("cluster") or {}).get("replicas") or []
    return [str(one.get("name")) for one in replicas if one.get("offline") or not one.get("current")]


def hears_majority(info: Answer) -> bool:
    """Whether the leader that answered has heard from a majority of the copies, itself included, a moment ago.

    Then it has no successor yet, and its answer is not that of the past: a server waits longer than that for its
    leader before it votes for another one.
    """
    cluster = info.get("cluster") or {}
    replicas = cluster.get("replicas") or []
    if not replicas:
        return True
    heard = [one for one in replicas if not one.get("offline") and 0 < int(one.get("active", 0)) < _HEARD_NS]
    return bool(cluster.get("leader")) and 2 * (1 + len(heard)) > 1 + len(replicas)
