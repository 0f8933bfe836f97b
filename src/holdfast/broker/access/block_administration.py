"""What an administrator does to blocks: add, remove, read again. Connected clients that are blocked go."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.broker.access.blocks import Blocks, describe_block
from holdfast.broker.connections.connections import ClientConnections
from holdfast.exchange.exchange import Exchange
from holdfast.files.block_file import Block
from holdfast.model.reasons import ADMINISTRATIVE_ACTION, BANNED

#: Connections that are looked at in one loop iteration, and those of them that are ended: about a millisecond each.
_LOOKED_AT: Final = 500
_ENDED: Final = 20


class BlockAdministration:
    """Changes the blocks of this node. Requires: the broker's event loop. SettingsError: nothing was done."""

    def __init__(self, blocks: Blocks, connections: ClientConnections, exchange: Exchange) -> None:
        self._blocks: Final = blocks
        self._connections: Final = connections
        self._exchange: Final = exchange

    async def add(self, blocks: Iterable[Block]) -> tuple[list[Block], int]:
        """The blocks as they are kept now, and how many connections were ended."""
        added = await self._blocks.add(blocks)
        ended = 0
        for count in self._turn_out():
            ended += count
            await asyncio.sleep(0)
        return added, ended

    def reload(self) -> None:
        """Read the file again, and end the connections of those who are blocked by now."""
        self._blocks.reload()
        for _count in self._turn_out():
            pass

    def _turn_out(self) -> Iterator[int]:
        """End the connections of blocked clients, in slices; how many in each."""
        looked_at = ended = 0
        blocks = self._blocks
        for connection in self._connections:
            # One that has not said who it is yet meets the same question behind that.
            if connection.session_id and not connection.channel.closed:
                found = blocks.find(connection.session_id, connection.user, connection.origin.address)
                if found is not None:
                    client = connection.channel.client
                    has_connack = client is not None and client.channel is connection.channel
                    # CONNACK knows "banned", DISCONNECT does not.
                    reason = ADMINISTRATIVE_ACTION if has_connack else BANNED
                    self._connections.disconnect(connection, reason, describe_block(found))
                    ended += 1
            looked_at += 1
            if ended == _ENDED or looked_at == _LOOKED_AT:
                yield self._settle(ended)
                looked_at = ended = 0
        yield self._settle(ended)

    def _settle(self, ended: int) -> int:
        if ended:
            self._exchange.run_iteration()
        return ended
