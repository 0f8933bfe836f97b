"""Names of keys. All keys of a client have its tag in braces, so that they lie in one slot of a cluster (T1).

    holdfast:{tag}:state        string    last number and serial, what was read, what waits, all bytes, whether it is
                                          full, the first expiry: 20 digits and 7 doubles, big-endian
    holdfast:{tag}:queue        sorted set   serial → number and size of each message
    holdfast:{tag}:expiring     sorted set   when it expires → serial, of those that do
    holdfast:{tag}:damaged      hash      serial → message, of those that could not be read
    holdfast:{tag}:<serial>     string    whether PUBREC came (one byte), and the message (`records/queued_message.py`)

The tag is the client id with `%`, `{` and `}` written as `%25`, `%7B` and `%7D`. Redis takes the first `}` for the end
of the tag, and an empty tag for none; so the empty client id is a lone `%`, which is no other one's tag.
"""

from binascii import crc_hqx
from typing import Final

#: Never change: these names are on servers.
STATE: Final = b":state"
QUEUE: Final = b":queue"
EXPIRING: Final = b":expiring"

SLOTS: Final = 16_384

_EMPTY: Final = b"%"
_PATTERN_CHARACTERS: Final = b"\\*?[]^-"


def encode_tag(client_id: str) -> bytes:
    tag = client_id.encode("utf-8", "surrogatepass")
    if b"%" in tag or b"{" in tag or b"}" in tag:
        tag = tag.replace(b"%", b"%25").replace(b"{", b"%7B").replace(b"}", b"%7D")
    return tag or _EMPTY


def decode_tag(tag: bytes) -> str:
    if tag == _EMPTY:
        return ""
    return tag.replace(b"%7D", b"}").replace(b"%7B", b"{").replace(b"%25", b"%").decode("utf-8", "surrogatepass")


def slot_of_tag(tag: bytes) -> int:
    """The slot of all keys with this tag."""
    return crc_hqx(tag, 0) % SLOTS


def slot_of_key(base: bytes) -> int:
    """The slot of a `base_key`. Requires: no brace in the prefix."""
    return slot_of_tag(base[base.index(b"{") + 1 : -1])


def base_key(prefix: bytes, client_id: str) -> bytes:
    """The common prefix of a client's keys."""
    return b"%b{%b}" % (prefix, encode_tag(client_id))


def client_of(key: bytes, prefix: bytes, suffix: bytes) -> str:
    """The client of a key. Requires: a key that `pattern` found."""
    return decode_tag(key[len(prefix) + 1 : -len(suffix) - 1])


def pattern(prefix: bytes, suffix: bytes) -> bytes:
    """The pattern for SCAN: keys of all clients with this suffix."""
    escaped = b"".join(b"\\%c" % byte if byte in _PATTERN_CHARACTERS else b"%c" % byte for byte in prefix)
    return b"%b{*}%b" % (escaped, suffix)
