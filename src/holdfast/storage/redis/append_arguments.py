"""Append batches as arguments of the script APPEND, and its answers."""

from collections.abc import Iterable, Iterator
from struct import error
from typing import Final

import structlog

from holdfast.durable.queues.queue_store import REFUSE, AppendBatch, Appended
from holdfast.model.errors import HoldfastError, MisuseError, PermanentError
from holdfast.records.queued_message import encode_queued

#: First byte of a value: PUBREC was not received. Never change: it is stored.
WAITS: Final = b"\0"

#: The argument for no expiry.
_NOT_STORED: Final = b"-"
_LAST_NUMBER: Final = 2**64 - 1
#: The most messages and bytes of a call: enough to make it cheap, and few enough for Redis to work on one while the
#: next is encoded, and for other calls in between.
_PORTION: Final = 500
_PORTION_BYTES: Final = 1_000_000

_log = structlog.get_logger()


def portions(batches: Iterable[AppendBatch]) -> Iterator[list[AppendBatch]]:
    """Groups of batches for one call each, in order; a batch is not divided."""
    portion: list[AppendBatch] = []
    messages = 0
    size_bytes = 0
    for batch in batches:
        portion.append(batch)
        messages += len(batch.entries)
        for entry in batch.entries:
            size_bytes += entry.owed.size_bytes
        if messages >= _PORTION or size_bytes >= _PORTION_BYTES:
            yield portion
            portion = []
            messages = 0
            size_bytes = 0
    if portion:
        yield portion


def arguments_of(batches: list[AppendBatch], now_us: int) -> list[bytes | int]:
    """A message that cannot be encoded has a number and no serial, which is logged."""
    arguments: list[bytes | int] = [now_us]
    for batch in batches:
        limits = batch.limits
        arguments += (limits.max_messages, limits.max_bytes, int(limits.on_full == REFUSE), len(batch.entries))
        for entry in batch.entries:
            owed = entry.owed
            expires_us = limits.expiry_us(owed.message, entry.expires_us)
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
                # The rest of the batch is stored.
                expiry = _NOT_STORED
                _log.warning("a message cannot be stored in Redis", client=batch.client_id, reason=str(wrong))
            arguments += (b"%020d:%d" % (entry.number, owed.size_bytes), expiry, value)
    return arguments


def appended(answer: object, batch: AppendBatch) -> Appended | Exception:
    """The result of APPEND for one client, or its error."""
    if isinstance(answer, Exception):
        return answer
    if isinstance(answer, int):
        return Appended(list(range(answer, answer + len(batch.entries))), 0, 0)
    if isinstance(answer, list):
        return Appended(answer[2:], answer[0], answer[1])
    return PermanentError(f"Redis refused a call: {answer!r}")
