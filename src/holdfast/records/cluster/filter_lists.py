"""What nodes tell each other about their filters, so that QoS 0 goes only where a client may want it.

    0    version   u8     1
    1    kind      u8     see below
    2    node      u32    who sends it
    6    life      8 bytes, random, of the sender's process: numbers of another one mean nothing
    14   number    u64    of the sender's list: one more with each change
    22   fields

    kind  name     fields
    ────  ───────  ──────────────────────────────────────────────────────────────────────────────────────────
    01    list     flags u8: 1 everything, whatever is in the list │ filters u32, each u32 bytes and they
    02    change   filters added, as above │ filters removed, as above; it leads from number - 1 to number
    03    state    the number alone
    04    request  node u32 whose list is asked for

They are sent over core NATS and stored nowhere. Numbers are little-endian.
"""

from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.fields import RecordReader, ValueRecord, blob, u8, u32, u64

#: Never change.
VERSION: Final = 1
LIFE_BYTES: Final = 8
_LIST: Final = 0x01
_CHANGE: Final = 0x02
_STATE: Final = 0x03
_REQUEST: Final = 0x04
_EVERYTHING: Final = 0x01


class FilterSender(ValueRecord):
    """Who tells something, in which of its lives, and the number of its list then."""

    def __init__(self, node: int, life: bytes, number: int) -> None:
        self.node: Final = node
        self.life: Final = life
        self.number: Final = number

    def _fields(self) -> tuple[object, ...]:
        return (self.node, self.life, self.number)


class FilterList(ValueRecord):
    """All filters of a node; or that it wants everything."""

    def __init__(self, sender: FilterSender, filters: tuple[bytes, ...], *, everything: bool = False) -> None:
        self.sender: Final = sender
        self.filters: Final = filters
        self.everything: Final = everything

    def _fields(self) -> tuple[object, ...]:
        return (self.sender, self.filters, self.everything)


class FilterChange(ValueRecord):
    """What has changed since the number before."""

    def __init__(self, sender: FilterSender, added: tuple[bytes, ...], removed: tuple[bytes, ...]) -> None:
        self.sender: Final = sender
        self.added: Final = added
        self.removed: Final = removed

    def _fields(self) -> tuple[object, ...]:
        return (self.sender, self.added, self.removed)


class FilterState(ValueRecord):
    """That the list has this number, so that a change that was lost is noticed."""

    def __init__(self, sender: FilterSender) -> None:
        self.sender: Final = sender

    def _fields(self) -> tuple[object, ...]:
        return (self.sender,)


class FilterRequest(ValueRecord):
    """The list of a node is wanted."""

    def __init__(self, sender: FilterSender, of: int) -> None:
        self.sender: Final = sender
        self.of: Final = of

    def _fields(self) -> tuple[object, ...]:
        return (self.sender, self.of)


FilterNews = FilterList | FilterChange | FilterState | FilterRequest


def encode_filter_news(news: FilterNews) -> bytes:
    if isinstance(news, FilterList):
        flags = _EVERYTHING if news.everything else 0
        return _head(_LIST, news.sender) + u8(flags) + _encode_filters(news.filters)
    if isinstance(news, FilterChange):
        return _head(_CHANGE, news.sender) + _encode_filters(news.added) + _encode_filters(news.removed)
    if isinstance(news, FilterRequest):
        return _head(_REQUEST, news.sender) + u32(news.of)
    return _head(_STATE, news.sender)


def decode_filter_news(value: bytes) -> FilterNews:
    """PermanentError: it is none, or of a later version."""
    fields = RecordReader(value, "the filters of a node", VERSION)
    kind = fields.u8("the kind")
    sender = FilterSender(fields.u32("the node"), fields.raw(LIFE_BYTES, "the life"), fields.u64("the number"))
    found: FilterNews
    if kind == _LIST:
        everything = fields.u8("the flags") & _EVERYTHING != 0
        found = FilterList(sender, _decode_filters(fields), everything=everything)
    elif kind == _CHANGE:
        added = _decode_filters(fields)
        found = FilterChange(sender, added, _decode_filters(fields))
    elif kind == _STATE:
        found = FilterState(sender)
    elif kind == _REQUEST:
        found = FilterRequest(sender, fields.u32("the node asked"))
    else:
        raise PermanentError(f"the filters of a node have kind {kind:#04x}; known are 0x01 to 0x04")
    fields.end()
    return found


def _head(kind: int, sender: FilterSender) -> bytes:
    return b"".join((u8(VERSION), u8(kind), u32(sender.node), sender.life, u64(sender.number)))


def _encode_filters(filters: tuple[bytes, ...]) -> bytes:
    return b"".join([u32(len(filters)), *[blob(one) for one in filters]])


def _decode_filters(fields: RecordReader) -> tuple[bytes, ...]:
    return tuple([fields.blob("a filter") for _filter in range(fields.u32("the filters"))])
