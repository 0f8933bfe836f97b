"""The blocks of the broker while somebody looks at them.

The broker is asked again at most once a second, whatever the number of those who look. A change by this console is seen
at once: it makes what is known void.
"""

import asyncio
from typing import Final

from holdfast.console.live.broker_link import BrokerLink
from holdfast.console.problems import ProblemError
from holdfast.control.words import BlockInfo, BlockRows, BlocksRequest
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

_FRESH_US: Final = SECOND_US
#: Lists of clients wait for it.
_ANSWER_S: Final = 2.0


class KnownBlocks:
    """All blocks in force at a moment, the newest first."""

    def __init__(self, items: list[BlockInfo], problem: str, as_of_us: int, *, kept: bool) -> None:
        self.items: Final = items
        #: What is wrong with the block file; empty if nothing is.
        self.problem: Final = problem
        self.as_of_us: Final = as_of_us
        #: Whether they outlive the broker.
        self.kept: Final = kept
        self._by_key: Final = {(block.kind, block.value): block for block in items}

    def find(self, session_id: str, user: str) -> BlockInfo | None:
        """The block that keeps a session's client out, as far as names tell: not by its address."""
        return self._by_key.get(("client", session_id)) or self._by_key.get(("user", user))


class BlockWatch:
    """Asks for blocks when somebody wants to see them."""

    def __init__(self, link: BrokerLink, clock: Clock) -> None:
        self._link: Final = link
        self._clock: Final = clock
        self._asking: Final = asyncio.Lock()
        self._known: KnownBlocks | None = None
        self._asked_us = 0

    def forget(self) -> None:
        """Blocks have changed."""
        self._known = None

    async def current(self) -> KnownBlocks:
        """The blocks of the last second. ProblemError if the broker does not tell."""
        async with self._asking:
            now_us = self._clock.monotonic_us()
            if self._known is None or now_us - self._asked_us > _FRESH_US:
                self._known = await self._ask()
                self._asked_us = now_us
            return self._known

    async def known(self) -> KnownBlocks | None:
        """The same; None if the broker does not tell."""
        try:
            return await self.current()
        except ProblemError:
            return None

    async def _ask(self) -> KnownBlocks:
        items: list[BlockInfo] = []
        while True:
            part = await self._link.request("blocks", BlocksRequest(items[-1] if items else None), _ANSWER_S)
            assert isinstance(part, BlockRows)
            items += part.items
            if not part.more:
                return KnownBlocks(items, part.problem, self._clock.wall_us(), kept=part.kept)
