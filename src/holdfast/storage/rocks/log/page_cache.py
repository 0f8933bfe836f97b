"""Pages of messages that several readers may want, in memory."""

from collections import OrderedDict
from typing import Final

from holdfast.model.message import Message

#: Memory for all pages, and what a message takes besides its topic, payload and properties.
_PAGES_BYTES: Final = 32 * 1024 * 1024
_MESSAGE_BYTES: Final = 600

#: Shard, filter and first position.
PageKey = tuple[int, tuple[bytes, ...], int]


class CachedPage:
    """Messages, and the memory that they take."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages: Final = messages
        size_bytes = _MESSAGE_BYTES * len(messages)
        for message in messages:
            size_bytes += len(message.topic) + len(message.payload) + len(message.properties)
        self.size_bytes: Final = size_bytes


class PageCache:
    """Pages that were read last: a reader that follows another one finds them here.

    1. A page holds every match of its shard and filter from its first position up to its last message.
    2. No reader has its list: it is copied on the way in and on the way out.
    3. `size_bytes` is at most the limit.
    """

    def __init__(self, max_bytes: int = _PAGES_BYTES) -> None:
        self._max_bytes: Final = max_bytes
        self._pages: Final[OrderedDict[PageKey, CachedPage]] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0

    def get(self, key: PageKey, limit: int, before_us: int) -> list[Message] | None:
        """`limit` messages, or fewer if that is all there is below `before_us`; None if that is not known."""
        known = self._pages.get(key)
        if known is None:
            return None
        page = known.messages
        if len(page) < limit and page[-1].position_us < before_us:
            return None
        self._pages.move_to_end(key)
        self.hits += 1
        found = page[:limit]
        while found and found[-1].position_us >= before_us:
            found.pop()
        return found

    def put(self, key: PageKey, messages: list[Message]) -> None:
        """Requires: at least one message; the key's filter and first position are theirs."""
        page = self._pages.pop(key, None)
        if page is not None:
            self.size_bytes -= page.size_bytes
        if page is None or len(page.messages) <= len(messages):
            page = CachedPage(list(messages))
        self._pages[key] = page
        self.size_bytes += page.size_bytes
        while self.size_bytes > self._max_bytes:
            _key, oldest = self._pages.popitem(last=False)
            self.size_bytes -= oldest.size_bytes

    def clear(self) -> None:
        self._pages.clear()
        self.size_bytes = 0
