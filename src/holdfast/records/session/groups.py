"""Groups of shared subscriptions on disk. A group is kept as a session is, under a client id that no client can have.

    01 | client | 00                     the session           never ends by itself
    01 | client | 05, 09                 how far the group has come, and its QoS 2 messages above that
    01 | client | 0a                     the group             where it began, and what holds for all its members
    01 | client | 0b | client id         a member that has a stored session; the value is empty

    client    u16 bytes, then U+0000 `group` U+0000 `$share/<name>/<filter>`

    group     01 | flags u8: 1 it has not reached the present, 2 not all members are listed | since i64 (µs)
              | steal after u64 (µs, 0: never)

Groups that were stored before 0a and 0b existed have neither. Such a group is never known to have lost its last member.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Final

from holdfast.records.fields import RecordReader, i64, u8, u64
from holdfast.records.session.session_keys import client_prefix

#: Never change.
VERSION: Final = 1
#: In front of the name under which a group is stored. U+0000 cannot begin a client id. Never change.
GROUP_PREFIX: Final = "\0group\0"
_REPLAYING: Final = 0x01
_UNLISTED: Final = 0x02


@dataclass(frozen=True)
class GroupRecord:
    """What holds for all members of a group. Never changes; a step replaces it."""

    #: Where it began: what was stored before does not concern it.
    since_us: int
    _: KW_ONLY
    #: Whether it reads history, and has not reached the present.
    replaying: bool
    #: How long QoS 1 work may rest with a member before another one gets it; 0 for as long as it is online.
    steal_after_us: int
    #: Whether an earlier version began it: then it may have members that are not listed.
    unlisted: bool = False


def group_key(client_id: str) -> bytes:
    return client_prefix(client_id) + b"\x0a"


def member_key(client_id: str, member: str) -> bytes:
    return client_prefix(client_id) + b"\x0b" + member.encode()


def encode_group(record: GroupRecord) -> bytes:
    flags = (_REPLAYING if record.replaying else 0) | (_UNLISTED if record.unlisted else 0)
    return b"".join((u8(VERSION), u8(flags), i64(record.since_us), u64(record.steal_after_us)))


def decode_group(value: bytes) -> GroupRecord:
    fields = RecordReader(value, "a group", VERSION)
    flags = fields.u8("the flags")
    since_us = fields.i64("the start")
    steal_after_us = fields.u64("the time before stealing")
    fields.end()
    return GroupRecord(
        since_us,
        replaying=flags & _REPLAYING != 0,
        steal_after_us=steal_after_us,
        unlisted=flags & _UNLISTED != 0,
    )
