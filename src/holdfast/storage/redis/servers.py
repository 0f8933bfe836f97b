"""The server of a key: one Redis, or the master of its slot in a cluster.

What is known may be out of date at any time. `refresh` is called after an error. Both classes have the same methods.
"""

from collections.abc import Iterator
from typing import Final

from redis.exceptions import ResponseError

from holdfast.storage.redis.connection_pool import ConnectionLostError, RedisPool
from holdfast.storage.redis.keys import SLOTS, slot_of_key
from holdfast.storage.redis.options import RedisOptions

#: Host and port.
Address = tuple[str, int]


class OneServer:
    """One Redis. Of several URLs it is the one that reports to be the master."""

    def __init__(self, options: RedisOptions) -> None:
        self._pools: Final = [RedisPool(options, url) for url in options.urls]
        # Of several, find the master first: a replica would answer as well, with stale data.
        self._current = 0 if len(self._pools) == 1 else -1

    def pool(self, slot: int) -> RedisPool | None:  # noqa: ARG002
        return self._pools[self._current] if self._current >= 0 else None

    def pool_of(self, base: bytes) -> RedisPool | None:  # noqa: ARG002
        return self.pool(0)

    def pool_to(self, address: Address) -> RedisPool:
        raise ConnectionLostError(
            f"Redis points to {address[0]}:{address[1]}: it is a cluster, which the settings do not say"
        )

    def masters(self) -> Iterator[RedisPool]:
        if self._current >= 0:
            yield self._pools[self._current]

    async def refresh(self, timeout_s: float) -> None:
        if len(self._pools) == 1:
            return
        reason = ""
        for step in range(1, len(self._pools) + 1):
            place = (self._current + step) % len(self._pools)
            pool = self._pools[place]
            try:
                (reply,) = await pool.run([(b"ROLE",)], timeout_s / len(self._pools))
            except ConnectionLostError as lost:
                reason = str(lost)
                continue
            if isinstance(reply, list) and reply[0] == b"master":
                self._current = place
                return
            reason = f"Redis at {pool.name} is not the master"
        raise ConnectionLostError(reason)

    async def close(self) -> None:
        for pool in self._pools:
            await pool.close()


class ClusterServers:
    """The masters of a Redis Cluster, as reported by any of its members."""

    def __init__(self, options: RedisOptions) -> None:
        self._options: Final = options
        self._seeds: Final = [RedisPool(options, url) for url in options.urls]
        self._pools: Final[dict[Address, RedisPool]] = {}
        self._slots: list[Address | None] = [None] * SLOTS

    def pool(self, slot: int) -> RedisPool | None:
        """The server of a slot; None if it is not known."""
        address = self._slots[slot]
        return None if address is None else self.pool_to(address)

    def pool_of(self, base: bytes) -> RedisPool | None:
        """The server of a client's keys."""
        return self.pool(slot_of_key(base))

    def pool_to(self, address: Address) -> RedisPool:
        """The server of a redirection."""
        pool = self._pools.get(address)
        if pool is None:
            pool = self._pools[address] = RedisPool(self._options, self._options.urls[0], address)
        return pool

    def masters(self) -> Iterator[RedisPool]:
        """All servers that hold keys."""
        for address in sorted({address for address in self._slots if address is not None}):
            yield self.pool_to(address)

    async def refresh(self, timeout_s: float) -> None:
        """Ask which server has which slots. ConnectionLostError if no server answers."""
        # Known masters first: the servers in the settings may be gone.
        asked = [*self._pools.values(), *self._seeds]
        reason = "no member is known"
        each_s = max(timeout_s / max(len(asked), 1), 0.2)
        for pool in asked:
            try:
                (reply,) = await pool.run([(b"CLUSTER", b"SLOTS")], each_s)
            except ConnectionLostError as lost:
                reason = str(lost)
                continue
            if isinstance(reply, ResponseError):
                reason = f"Redis at {pool.name}: {reply}"
                continue
            assert isinstance(reply, list)
            self._learn(reply, pool)
            if any(address is not None for address in self._slots):
                return
            reason = f"Redis at {pool.name} knows no slots"
        raise ConnectionLostError(reason)

    def _learn(self, ranges: list[list[object]], told_by: RedisPool) -> None:
        """A range of CLUSTER SLOTS: first and last slot, master, replicas. An unknown own host name is ''."""
        slots: list[Address | None] = [None] * SLOTS
        for first, last, master, *_ in ranges:
            assert isinstance(first, int)
            assert isinstance(last, int)
            assert isinstance(master, list)
            host = (master[0] or b"").decode() or told_by.host
            slots[first : last + 1] = [(host, int(master[1]))] * (last + 1 - first)
        self._slots = slots

    async def close(self) -> None:
        for pool in [*self._pools.values(), *self._seeds]:
            await pool.close()


Servers = OneServer | ClusterServers


def open_servers(options: RedisOptions) -> Servers:
    return ClusterServers(options) if options.cluster else OneServer(options)
