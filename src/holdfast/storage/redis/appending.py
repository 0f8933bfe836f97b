"""Packs as the script APPEND takes them, and its answers."""

from collections.abc import Iterable, Iterator
from struct import error
from typing import Final

import structlog

from holdfast.durable.queue_store import REFUSE, Appended, Pack
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError
from holdfast.records.queued import encode_queued

#: First byte of a value: PUBREC has not come. Never change: it is on servers.
WAITS: Final = b"\0"

#: In place of an expiry.
_NOT_STORED: Final = b"-"
_SECOND_US: Final = 1_000_000
_LAST_NUMBER: Final = 2**64 - 1
#: Messages that go out together, and their bytes: enough to make a call cheap, few enough for Redis to be at work on
#: one while the next is put together, and for others to come between.
_PORTION: Final = 500
_PORTION_BYTES: Final = 1_000_000

_log = structlog.get_logger()


def portions(packs: Iterable[Pack]) -> Iterator[list[Pack]]:
    """All of them, in their order; a pack is not divided."""
    portion: list[Pack] = []
    messages = 0
    size_bytes = 0
    for pack in packs:
        portion.append(pack)
        messages += len(pack.entries)
        for entry in pack.entries:
            size_bytes += entry.owed.size_bytes
        if messages >= _PORTION or size_bytes >= _PORTION_BYTES:
            yield portion
            portion = []
            messages = 0
            size_bytes = 0
    if portion:
        yield portion


def arguments_of(packs: list[Pack], now_us: int) -> list[bytes | int]:
    """A message that cannot be encoded has a number and no place; that is told."""
    arguments: list[bytes | int] = [now_us]
    for pack in packs:
        limits = pack.limits
        arguments += (limits.max_messages, limits.max_bytes, int(limits.on_full == REFUSE), len(pack.entries))
        for entry in pack.entries:
            owed = entry.owed
            expires_us = entry.expires_us
            if not expires_us and limits.ttl_s:
                expires_us = owed.message.received_us + limits.ttl_s * _SECOND_US
            expiry = b""
            if expires_us:
                left_ms = (expires_us - now_us + 999) // 1000
                expiry = b"%d:%d" % (expires_us, left_ms) if expires_us > now_us else _NOT_STORED
            if not 0 < entry.number <= _LAST_NUMBER:
                raise MisuseError(f"{entry!r} has a number that is not above 0 and below 2^64")
            value = b""
            try:
                value = WAITS + encode_queued(owed, entry.number, expires_us)
            except (HoldfastError, error) as wrong:
                # The rest of the pack is not to blame.
                expiry = _NOT_STORED
                _log.warning("a message cannot be stored in Redis", client=pack.client_id, reason=str(wrong))
            arguments += (b"%020d:%d" % (entry.number, owed.size_bytes), expiry, value)
    return arguments


def appended(answer: object, pack: Pack) -> Appended | Exception:
    """What APPEND says of one client, or why it says nothing."""
    if isinstance(answer, Exception):
        return answer
    if isinstance(answer, int):
        return Appended(list(range(answer, answer + len(pack.entries))), 0, 0)
    if isinstance(answer, list):
        return Appended(answer[2:], answer[0], answer[1])
    return PermanentError(f"Redis refused a call: {answer!r}")
