"""The blocks of a broker: those in force, and the file that keeps them.

    add, remove ──▶ write the file, in a thread ──▶ put in force ──▶ the caller turns out who is blocked now
    reload      ──▶ read the file ────────────────▶ put in force         (`block_administration`)

1. A block holds once it is on disk: what was answered survives a power loss.
2. A file that is wrong changes nothing. The old blocks stay in force, `problem` names the line, and nothing is written
   over it before it was mended.
3. A broker without a data folder keeps its blocks in memory alone.
"""

import asyncio
import ipaddress
from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from holdfast.files.block_file import (
    ADDRESS,
    CLIENT,
    MAX_BLOCKS,
    USER,
    Block,
    check_number,
    checked_block,
    read_block_file,
    write_block_file,
)
from holdfast.files.stamp import Stamp, file_stamp
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.model.time import datetime_of

_log = structlog.get_logger()

_BY: Final = {CLIENT: "client id", USER: "user", ADDRESS: "address"}


def order(block: Block) -> tuple[int, str, str]:
    """What blocks are sorted by: the newest first."""
    return -block.since_us, block.kind, block.value


class BlockList:
    """Blocks as a CONNECT looks for them. Never changed: another list takes its place."""

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.by_key: Final = {block.key: block for block in blocks}
        #: So that a CONNECT pays one test while there are no blocks.
        self.is_empty: Final = not self.by_key
        self.newest_first: Final = sorted(self.by_key.values(), key=order)
        #: By IP version and number of bits behind the prefix, then by prefix: one look for each length of prefix.
        self._networks: Final[dict[tuple[int, int], dict[int, Block]]] = {}
        for block in self.by_key.values():
            if block.kind == ADDRESS and "/" in block.value:
                network = ipaddress.ip_network(block.value)
                rest = network.max_prefixlen - network.prefixlen
                alike = self._networks.setdefault((network.version, rest), {})
                alike[int(network.network_address) >> rest] = block
        self._has_addresses: Final = any(kind == ADDRESS for kind, _value in self.by_key)

    def find(self, session_id: str, user: str | None, address: str, now_us: int) -> Block | None:
        """The block that a client meets, by its session's name, its verified user or its address; None for none."""
        for key in ((CLIENT, session_id), (USER, user or "")):
            found = self.by_key.get(key)
            if found is not None and not found.has_ended(now_us):
                return found
        return self._find_address(address, now_us) if self._has_addresses else None

    def _find_address(self, text: str, now_us: int) -> Block | None:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return None  # a listener that knows no address
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        found = self.by_key.get((ADDRESS, str(address)))
        if found is not None and not found.has_ended(now_us):
            return found
        number = int(address)
        for (version, rest), alike in self._networks.items():
            found = alike.get(number >> rest) if version == address.version else None
            if found is not None and not found.has_ended(now_us):
                return found
        return None


class Blocks:
    """Requires: the broker's event loop."""

    def __init__(self, path: Path | None = None, clock: Clock | None = None) -> None:
        """Read the file, or raise SettingsError. None: nothing is kept. Without a clock no block ends."""
        self._path: Final = path
        self._clock: Final = clock
        self._changing: Final = asyncio.Lock()
        self._stamp: Stamp | None = None
        #: What is wrong with the file; empty if nothing is.
        self.problem = ""
        self.in_force = BlockList(self._read())

    @property
    def is_kept(self) -> bool:
        """Whether blocks outlive the broker."""
        return self._path is not None

    def find(self, session_id: str, user: str | None, address: str) -> Block | None:
        return self.in_force.find(session_id, user, address, self._now_us())

    def listed(self, most: int = MAX_BLOCKS, after: tuple[int, str, str] | None = None) -> list[Block]:
        """Those in force, the newest first: at most so many, behind one that has this `order`."""
        blocks, now_us = self.in_force.newest_first, self._now_us()
        begin = 0 if after is None else bisect_right(blocks, after, key=order)
        running = (block for block in islice(blocks, begin, None) if not block.has_ended(now_us))
        return list(islice(running, most))

    def reload(self) -> None:
        """Read the file again. SettingsError if it is wrong: then nothing changes."""
        self.in_force = BlockList(self._read())

    async def add(self, blocks: Iterable[Block]) -> list[Block]:
        """Put blocks in force, each in place of an older one of its key; as they stand in the file.

        SettingsError: one is wrong, or the file is. Nothing was done. Survives: a power loss.
        """
        added = [checked_block(block) for block in blocks]
        async with self._changing:
            kept = self._kept()
            for block in added:
                kept.pop(block.key, None)
                kept[block.key] = block
            await self._replace(kept)
        return added

    async def remove(self, keys: Iterable[tuple[str, str]]) -> list[Block]:
        """Take blocks away; those that there were. SettingsError and Survives as `add`."""
        async with self._changing:
            kept = self._kept()
            removed = [block for key in keys if (block := kept.pop(key, None)) is not None]
            if removed:
                await self._replace(kept)
        return removed

    def _kept(self) -> dict[tuple[str, str], Block]:
        """What the next file is made of: the blocks in force, or of a file that was edited meanwhile."""
        if self._path is not None and (self.problem or file_stamp(self._path) != self._stamp):
            known = self.problem
            try:
                self.reload()
            except SettingsError as error:
                if str(error) != known:
                    _log.error("block file is wrong, the old blocks stay", why=str(error))
                raise
        now_us = self._now_us()
        return {key: block for key, block in self.in_force.by_key.items() if not block.has_ended(now_us)}

    async def _replace(self, blocks: dict[tuple[str, str], Block]) -> None:
        check_number(len(blocks))
        if self._path is None:
            self.in_force = BlockList(blocks.values())
        else:
            # In a thread: a sync may take as long as the disk likes.
            self.in_force = await asyncio.to_thread(self._write, self._path, tuple(blocks.values()))

    def _write(self, path: Path, blocks: tuple[Block, ...]) -> BlockList:
        write_block_file(path, blocks)
        self._stamp = file_stamp(path)
        return BlockList(blocks)

    def _read(self) -> list[Block]:
        if self._path is None:
            return []
        stamp = file_stamp(self._path)
        try:
            blocks = read_block_file(self._path)
        except SettingsError as error:
            self.problem = str(error)
            raise
        self.problem, self._stamp = "", stamp
        return blocks

    def _now_us(self) -> int:
        return 0 if self._clock is None else self._clock.wall_us()


def describe_block(block: Block) -> str:
    """What a client is told: by what it is blocked, and until when. The reason is for those who look at the list."""
    text = f"blocked by an administrator, by its {_BY[block.kind]}"
    if not block.until_us:
        return text
    try:
        return f"{text}, until {datetime_of(block.until_us):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return text
