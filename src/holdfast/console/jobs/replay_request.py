"""What a job of the kind `replay` is asked to do: fields that were checked, and the command that they make.

1. Arguments are made from checked fields alone, one list entry each. No shell sees them, and a filter or a name that
   begins with a hyphen is no option.
2. A password is no argument: it travels in a variable of the environment, and is kept nowhere.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.console.access.identity import parse_plain_filter
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.control.words import ListenerInfo
from holdfast.model.errors import PeerError
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST, parse_since

#: Where the process finds the password.
PASSWORD_VARIABLE: Final = "HOLDFAST_JOB_PASSWORD"
_SPEED: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)
#: Longest name and password of MQTT, in bytes.
_MAX_BYTES: Final = 65_535
#: Addresses that stand for all of a machine.
_ALL: Final = ("", "*", "0.0.0.0", "::")
_LOOPBACK: Final = "127.0.0.1"


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A range of the past that is published again."""

    filter: str
    from_us: int
    #: Not included, and not ahead of the moment of the request: a replay does not meet its own messages.
    until_us: int
    speed: str
    #: What goes in front of topics, with a slash; empty publishes to the topics themselves.
    prefix: str
    #: Who publishes; empty for a connection without a name.
    user: str = ""
    #: Begin and end as they were asked for.
    asked: tuple[str, str] = ("", "")

    def is_same(self, other: "ReplayRequest") -> bool:
        """Whether both publish the same messages to the same topics."""
        same_range = (self.from_us, self.until_us) == (other.from_us, other.until_us) or self.asked == other.asked
        return same_range and (self.filter, self.prefix) == (other.filter, other.prefix)


def check_replay(
    *, topic_filter: str, since: str, until: str, speed: str, prefix: str, confirm: str, user: str, now_us: int
) -> ReplayRequest:
    """The request that fields ask for. ProblemError (400) names the field that is wrong."""
    if not topic_filter:
        raise bad_parameter("filter", "is needed: which topics are played")
    parse_plain_filter(topic_filter, "filter")
    from_us = _time("from", since, now_us)
    until_us = min(_time("until", until or LATEST, now_us), now_us)
    if from_us >= until_us:
        raise bad_parameter("from", f"is {since}, which is not before the end, {until or LATEST}")
    check_speed(speed)
    if prefix:
        _check_prefix(prefix)
    elif confirm != topic_filter:
        text = "has to be the filter, typed once more: without a prefix, the topics themselves get these messages again"
        raise bad_parameter("confirm", text)
    check_text("user", user)
    whole = prefix if not prefix or prefix.endswith("/") else f"{prefix}/"
    return ReplayRequest(
        filter=topic_filter,
        from_us=from_us,
        until_us=until_us,
        speed=speed,
        prefix=whole,
        user=user,
        asked=(since, until or LATEST),
    )


def check_speed(speed: str) -> None:
    """ProblemError (400) if it is no speed."""
    if speed != "max" and (not _SPEED.fullmatch(speed) or float(speed) <= 0):
        raise bad_parameter("speed", f"is {speed[:40]!r}; write max, or a number above 0 such as 1, 10 or 0.5")


def check_text(name: str, text: str) -> None:
    """ProblemError (400), without the text, if MQTT or an environment cannot carry it."""
    if "\0" in text or len(text.encode()) > _MAX_BYTES:
        raise bad_parameter(name, f"has a NUL character, or more than {_MAX_BYTES} bytes")


def replay_arguments(request: ReplayRequest, target: Sequence[str], place: str, *, password: bool) -> list[str]:
    """The command, as `holdfast` takes it. `place` is where an earlier run stopped; empty for none."""
    words = ["replay", f"--from={request.from_us}", f"--until={request.until_us}", f"--speed={request.speed}"]
    words.append(f"--to-prefix={request.prefix}" if request.prefix else "--to-same-topics")
    if place:
        words.append(f"--after={place}")
    words += ["--progress", "--json", *target]
    if request.user:
        words.append(f"--user={request.user}")
        if password:
            words.append(f"--password-env={PASSWORD_VARIABLE}")
    # Behind the hyphens nothing is an option.
    return [*words, "--", request.filter]


def command_text(arguments: Sequence[str]) -> str:
    """The command as a person types it."""
    return shlex.join(["holdfast", *arguments])


def broker_target(listeners: Sequence[ListenerInfo]) -> list[str]:
    """Options that lead to the broker, by a listener that shows all topics. ProblemError (409) if there is none."""
    usable = [one for one in listeners if one.kind in ("tcp", "tls") and not one.mount_point and not one.proxy_protocol]
    if not usable:
        detail = "the broker has no listener of the kind tcp or tls without a mount point; run the command by hand"
        raise ProblemError(409, detail)
    chosen = min(usable, key=lambda one: one.kind != "tcp")
    target = [f"--host={_LOOPBACK if chosen.host in _ALL else chosen.host}", f"--port={chosen.port}"]
    # It is this machine's own listener: its certificate is for the names by which others come.
    return target if chosen.kind == "tcp" else [*target, "--insecure"]


def _time(name: str, text: str, now_us: int) -> int:
    try:
        return parse_since(text).resolve(now_us)
    except PeerError as error:
        raise bad_parameter(name, f"cannot be read: {error.detail}") from None


def _check_prefix(prefix: str) -> None:
    try:
        check_topic_name(prefix.encode())
    except PeerError as error:
        raise bad_parameter("prefix", f"cannot stand in front of topics: {error.detail}") from None
    if prefix.startswith("$"):
        raise bad_parameter("prefix", "begins with $, which is the broker's own; write such as replayed/")
