"""Events: what was dropped, refused or ended, and why. On disk a line of JSON each, so that people can read them.

    {"time_us":1767225600000000,"reason":"expired","client":"press-7","topic":"plant/1/temp",
     "shard":2,"from_us":1767225500000000,"to_us":1767225500000100,"count":12,"detail":""}

Fields that are empty or 0 may be left out; fields that are not known here are skipped. Events are there for diagnosis:
nothing is decided by them, and a line that cannot be read is left out.
"""

import json
from dataclasses import KW_ONLY, dataclass
from typing import Final

from holdfast.model.errors import PermanentError

#: Bytes of a client id, a topic and a detail that are kept; a sign of our own tells that there was more.
MAX_NAME_BYTES: Final = 256
MAX_DETAIL_BYTES: Final = 512
CUT: Final = "…"


@dataclass(unsafe_hash=True)
class Event:
    """The same thing, once or many times within a second.

    1. `client` is a session id, `$share/…` for a group, or empty if it concerns no single client.
    2. `from_us` and `to_us` are the first and the last position that it concerns, in `shard`; 0 if there is none.
    """

    #: When it happened first.
    time_us: int
    reason: str
    client: str
    topic: str
    _: KW_ONLY
    shard: int = 0
    from_us: int = 0
    to_us: int = 0
    #: Messages, or whatever the reason is about.
    count: int = 1
    #: Of the first.
    detail: str = ""

    def covers(self, shard: int, position_us: int) -> bool:
        """Whether a place in the log is inside of what it concerns."""
        return self.shard == shard and 0 < self.from_us <= position_us <= self.to_us

    def is_about(self, client: str) -> bool:
        """Whether it is about a client, whatever mount point that came through."""
        return self.client == client or self.client.endswith(f"\0{client}")


def event_fields(event: Event) -> dict[str, object]:
    """What an event says, without what it does not say."""
    fields: dict[str, object] = {"time_us": event.time_us, "reason": event.reason, "count": event.count}
    words = {"client": event.client, "topic": event.topic, "detail": event.detail}
    fields.update({name: value for name, value in words.items() if value})
    if event.from_us:
        fields["shard"] = event.shard
        fields["from_us"] = event.from_us
        fields["to_us"] = event.to_us
    return fields


def encode_event(event: Event) -> bytes:
    """One line, with its end."""
    return json.dumps(event_fields(event), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_event(line: bytes) -> Event:
    """PermanentError if it is no event."""
    try:
        found = json.loads(line)
    except ValueError:
        raise PermanentError(f"{line[:80]!r} is no event: it is no JSON") from None
    if not isinstance(found, dict):
        raise PermanentError(f"{line[:80]!r} is no event: it is no object")
    return Event(
        _number(found, "time_us"),
        _text(found, "reason"),
        _text(found, "client"),
        _text(found, "topic"),
        shard=_number(found, "shard"),
        from_us=_number(found, "from_us"),
        to_us=_number(found, "to_us"),
        count=_number(found, "count"),
        detail=_text(found, "detail"),
    )


def cut(value: str, most: int) -> str:
    """At most `most` bytes of a text, and a sign if that is not all."""
    encoded = value.encode(errors="replace")
    return value if len(encoded) <= most else encoded[:most].decode(errors="ignore") + CUT


def _number(found: dict[str, object], name: str) -> int:
    value = found.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PermanentError(f"{name} of an event is {value!r}; right would be a whole number")
    return value


def _text(found: dict[str, object], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise PermanentError(f"{name} of an event is {value!r}; right would be a text")
    return value
