"""A broker inside a test, in milliseconds.

    import holdfast.testing

    async def test_my_client() -> None:
        async with holdfast.testing.broker() as url:            # mqtt://127.0.0.1:49152
            ...

    def test_my_blocking_client(holdfast_broker: str) -> None:  # with the pytest plugin: the same, in a thread
        ...

It is the real broker on a real socket, with state in memory unless the settings say otherwise. For a broker inside
another program, use `holdfast.node.embedding`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.node.embedding import running
from holdfast.node.settings.tree import Listener, Settings, Storage, Sys


def loopback_settings() -> Settings:
    """A free port on loopback, nothing on disk, and no `$SYS` topics in the way."""
    return Settings(
        listeners={"default": Listener(port=0)}, storage=Storage(durability="memory"), sys=Sys(interval_s=0)
    )


@asynccontextmanager
async def broker(settings: Settings | None = None) -> AsyncIterator[str]:
    """Run a broker for the length of the block; yields its address as a URL."""
    async with running(settings or loopback_settings()) as node:
        yield node.url()
