"""What a broker answers of blocks by the control socket: who is not let in, from now on or not any more."""

from typing import Final

from holdfast.broker.broker import Broker
from holdfast.control.words import (
    BAD_REQUEST,
    LISTED,
    NOT_FOUND,
    NOT_POSSIBLE,
    Blocked,
    BlockInfo,
    BlockRequest,
    BlockRows,
    BlocksRequest,
    Unblocked,
    UnblockRequest,
)
from holdfast.files.block_file import Block, checked_block
from holdfast.model.errors import SettingsError
from holdfast.node.control.client_rows import MAX_NAMES
from holdfast.node.control.control_server import ControlConnection, Handler, RefusedRequestError


class BlockWords:
    """The words of one broker. Requires: its event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker: Final = broker

    def handlers(self) -> dict[str, Handler]:
        return {"blocks": self.blocks, "block": self.block, "unblock": self.unblock}

    def blocks(self, _connection: ControlConnection, body: BlocksRequest) -> BlockRows:
        blocks = self._broker.blocks
        items: list[BlockInfo] = []
        size = 0
        more = False
        after = body.after
        behind = None if after is None else (-after.since_us, after.kind, after.value)
        for block in blocks.listed(LISTED + 1, behind):
            size += len(block.value) + len(block.reason) + len(block.by)
            if len(items) == LISTED or size > MAX_NAMES:
                more = True
                break
            items.append(block_info(block))
        return BlockRows(tuple(items), more, blocks.problem, blocks.is_kept)

    async def block(self, _connection: ControlConnection, body: BlockRequest) -> Blocked:
        now_us = self._broker.clock.wall_us()
        if 0 < body.until_us <= now_us:
            raise RefusedRequestError(BAD_REQUEST, f"until_us is {body.until_us}, which has passed: it is {now_us} now")
        try:
            wanted = [
                checked_block(Block(kind, value, body.until_us, body.reason, body.by, now_us))
                for kind, value in body.targets
            ]
        except SettingsError as error:
            raise RefusedRequestError(BAD_REQUEST, str(error)) from error
        try:
            added, disconnected = await self._broker.block_administration.add(wanted)
        except SettingsError as error:
            raise RefusedRequestError(NOT_POSSIBLE, str(error)) from error
        return Blocked(tuple(map(block_info, added)), disconnected)

    async def unblock(self, _connection: ControlConnection, body: UnblockRequest) -> Unblocked:
        try:
            keys = [checked_block(Block(kind, value)).key for kind, value in body.targets]
        except SettingsError as error:
            raise RefusedRequestError(BAD_REQUEST, str(error)) from error
        try:
            removed = await self._broker.blocks.remove(keys)
        except SettingsError as error:
            raise RefusedRequestError(NOT_POSSIBLE, str(error)) from error
        if not removed:
            named = ", ".join(f"{kind} {value[:100]!r}" for kind, value in keys[:10])
            raise RefusedRequestError(NOT_FOUND, f"there is no block of {named}")
        return Unblocked(tuple(map(block_info, removed)))


def block_info(block: Block) -> BlockInfo:
    return BlockInfo(block.kind, block.value, block.until_us, block.reason, block.by, block.since_us)
