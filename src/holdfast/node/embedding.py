"""A node inside a program of your own.

    from holdfast.node.embedding import running
    from holdfast.node.settings import Listener, Settings, Storage

    listeners = {"main": Listener(port=1884)}
    async with running(Settings(listeners=listeners, storage=Storage(durability="memory"))) as node:
        print(node.url("main"))
        ...

`Storage(data=folder)` keeps state on disk, in that folder; without any `storage` that is `./holdfast-data`.
No signals are handled and no logs configured: both belong to the program around it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.policy import Policy
from holdfast.broker.sys_topics import SysTopics
from holdfast.model.errors import HoldfastError, PoisonedError
from holdfast.node.assembly import assemble, listener_specs
from holdfast.node.build_info import describe
from holdfast.node.history_process import end_history, start_history
from holdfast.node.reload import Reloaded, merge
from holdfast.node.settings import DEFAULT_LISTENER, Settings
from holdfast.server.listeners import Listeners, open_listeners

if TYPE_CHECKING:
    from holdfast.node.storage import DiskStorage

_log = structlog.get_logger()

#: Seconds that connections have to take their last bytes when the node stops, and that as a share of the whole stop.
GRACE_S: Final = 2.0
_GRACE_SHARE: Final = 0.25
#: Commits that may follow one another when the node stops: a message, its entries, how they were left.
_LAST_ROUNDS: Final = 4
_SCHEMES: Final = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}


@dataclass
class Node:
    """A running node."""

    #: What holds now.
    settings: Settings
    broker: Broker
    listeners: Listeners
    sys_topics: SysTopics
    disk: "DiskStorage | None" = None
    #: Set when the node cannot go on; `failure` says why.
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None

    def fail(self, why: Exception) -> None:
        """Nothing can be stored any more: whoever runs the node has to end it."""
        _log.critical("nothing can be stored any more", why=str(why))
        self.failure = why if isinstance(why, HoldfastError) else PoisonedError(str(why))
        self.failed.set()

    def sync_within(self, timeout_s: float) -> bool:
        """Any thread. Whether all that was written is on disk by then."""
        return self.disk is None or self.disk.engine.sync_within(timeout_s)

    def url(self, listener: str = DEFAULT_LISTENER) -> str:
        """The address of one of its listeners."""
        host, port = self.listeners.addresses()[listener]
        kind = self.settings.listeners[listener]
        path = kind.path if kind.kind in ("ws", "wss") else ""
        shown = f"[{host}]" if ":" in host else host
        return f"{_SCHEMES[kind.kind]}://{shown}:{port}{path}"

    def change(self, settings: Settings) -> Reloaded:
        """Go over to other settings, as far as that is possible without a restart; the outcome says how far it is.

        `log` is only noted: logs belong to whoever configured them.
        """
        reloaded = merge(self.settings, settings)
        self.settings = reloaded.settings
        now = reloaded.settings
        self.broker.change_policy(Policy(mqtt=now.mqtt, limits=now.limits, sessions=now.sessions, classes=now.classes))
        if any(change.key == "sys.interval_s" for change in reloaded.changes):
            self.sys_topics.change_interval(now.sys.interval_s)
        return reloaded


@asynccontextmanager
async def running(settings: Settings, grace_s: float | None = None) -> AsyncIterator[Node]:
    """Run a node for the length of the block; clients are told goodbye at its end, and have `grace_s` to hear it.

    SettingsError if a listener cannot be opened, a file of the settings is wrong, or another process has the data.
    """
    assembled = await assemble(settings)
    broker, disk = assembled.broker, assembled.disk
    try:
        async with broker:
            listeners = await open_listeners(listener_specs(settings), broker)
            sys_topics = SysTopics(broker, describe(), settings.sys.interval_s)
            sys_topics.start()
            node = Node(settings, broker, listeners, sys_topics, disk)
            tending = None if disk is None else asyncio.create_task(disk.tend(broker, node.fail))
            history = start_history(settings)
            try:
                yield node
            finally:
                await listeners.stop()
                # Before the goodbye: what clients have sent is acknowledged, and does not have to come again.
                await _commit_the_rest(broker, disk)
                await broker.feeding.settle()
                broker.say_goodbye()
                share_s = node.settings.limits.stop_timeout_s * _GRACE_SHARE
                await listeners.close(min(GRACE_S, share_s) if grace_s is None else grace_s)
                await _commit_the_rest(broker, disk)
                await broker.feeding.settle()
                await _commit_the_rest(broker, disk)
                await end_history(history)
                if tending is not None:
                    tending.cancel()
                    await asyncio.gather(tending, return_exceptions=True)
    finally:
        try:
            for home in assembled.homes.values():
                await home.close()
        finally:
            if disk is not None:
                disk.close()


async def _commit_the_rest(broker: Broker, disk: "DiskStorage | None") -> None:
    """What clients did last, and how their sessions were left: a commit may lead to another, but not for long."""
    for _round in range(_LAST_ROUNDS):
        broker.exchange.turn()
        if disk is not None:
            disk.flush()
        await asyncio.sleep(0)
