"""Begin of a takeover as one node asks another for it.

    request   version u8 = 1 │ session id text │ old channel: node u32, epoch u64, connection u64, revision u64
              │ taker: node u32, epoch u64, connection u64
    answer    version u8 = 1 │ result u8: 1 begun, 2 gone

"Gone" is an answer to anything that cannot be begun with: no such channel, a taker of a closed epoch, a request that
cannot be read.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, text, u8, u32, u64

#: Never change.
VERSION: Final = 1
BEGUN: Final = 1
GONE: Final = 2

#: Node, epoch, connection.
ChannelName = tuple[int, int, int]


@dataclass(frozen=True)
class BeginRequest:
    """Stop a channel for a taker."""

    session_id: str
    old: ChannelName
    #: Of the claim by which the old channel is registered.
    revision: int
    taker: ChannelName


def encode_begin(request: BeginRequest) -> bytes:
    return b"".join(
        (u8(VERSION), text(request.session_id), _channel(request.old), u64(request.revision), _channel(request.taker))
    )


def decode_begin(value: bytes) -> BeginRequest:
    fields = RecordReader(value, "a begin", VERSION)
    session_id = fields.text("the session id")
    old = _read_channel(fields)
    revision = fields.u64("the revision")
    request = BeginRequest(session_id, old, revision, _read_channel(fields))
    fields.end()
    return request


def encode_begin_answer(result: int) -> bytes:
    return u8(VERSION) + u8(result)


def decode_begin_answer(value: bytes) -> int:
    fields = RecordReader(value, "the answer to a begin", VERSION)
    result = fields.u8("the result")
    fields.end()
    if result not in (BEGUN, GONE):
        raise PermanentError(f"the answer to a begin is {result}; right would be {BEGUN} or {GONE}")
    return result


def _channel(channel: ChannelName) -> bytes:
    return u32(channel[0]) + u64(channel[1]) + u64(channel[2])


def _read_channel(fields: RecordReader) -> ChannelName:
    node = fields.u32("a node")
    epoch = fields.u64("an epoch")
    return (node, epoch, fields.u64("a connection"))
