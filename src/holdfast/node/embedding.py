"""A node inside another program.

    from holdfast.node.embedding import running
    from holdfast.node.settings import Listener, Settings, Storage

    listeners = {"main": Listener(port=1884)}
    async with running(Settings(listeners=listeners, storage=Storage(durability="memory"))) as node:
        print(node.url("main"))
        ...

`Storage(data=folder)` keeps state on disk, in that folder; without any `storage` that is `./holdfast-data`.
It handles no signals and configures no logs: both belong to the program around it.
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
from holdfast.model.errors import HoldfastError, PermanentError, PoisonedError
from holdfast.node.assembly import assemble, listener_specs
from holdfast.node.build_info import describe
from holdfast.node.control.control_socket import ControlSocket, control_socket
from holdfast.node.node_state import NodeState
from holdfast.node.processes.console_supervisor import start_console
from holdfast.node.processes.history_supervisor import end_history, lake_link, start_history
from holdfast.node.processes.supervision import end_task
from holdfast.node.reload import SettingsReload, merge
from holdfast.node.settings.tree import DEFAULT_LISTENER, Settings
from holdfast.server.listeners import Listeners, open_listeners

if TYPE_CHECKING:
    from holdfast.node.cluster.cluster_storage import ClusterStorage
    from holdfast.node.storage import DiskStorage

_log = structlog.get_logger()

#: When the node stops, the time connections have to read their last bytes: in seconds, and as a share of the stop.
GRACE_S: Final = 2.0
GRACE_SHARE: Final = 0.25
#: Commits that may follow one another when the node stops: messages, then queue entries, then session ends.
_LAST_ROUNDS: Final = 4
_SCHEMES: Final = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}


class InstallationNeededError(PermanentError):
    """The node has to be installed from another one of its cluster. Run again, it does that before it serves."""


@dataclass
class Node:
    """A running node."""

    #: The settings in effect.
    settings: Settings
    broker: Broker
    listeners: Listeners
    sys_topics: SysTopics
    disk: "DiskStorage | ClusterStorage | None" = None
    #: Where commands and the console ask; None in tests that have none.
    control: ControlSocket | None = None
    #: Set when the node cannot go on; `failure` says why.
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None

    def fail(self, why: Exception) -> None:
        """Note that nothing can be stored any more. The program that runs the node has to end it."""
        if isinstance(why, InstallationNeededError):
            _log.error("node has to be installed from another one", why=str(why))
        else:
            _log.critical("nothing can be stored any more", why=str(why))
        self.failure = why if isinstance(why, HoldfastError) else PoisonedError(str(why))
        self.failed.set()
        if self.control is not None:
            # Nobody can ask once it has ended.
            self.control.watches.push_stats()

    def sync_within(self, timeout_s: float) -> bool:
        """Whether all that was written is on disk within `timeout_s`. May be called from any thread."""
        return self.disk is None or self.disk.engine.sync_within(timeout_s)

    def url(self, listener: str = DEFAULT_LISTENER) -> str:
        """The URL of a listener."""
        host, port = self.listeners.addresses()[listener]
        kind = self.settings.listeners[listener]
        path = kind.path if kind.kind in ("ws", "wss") else ""
        shown = f"[{host}]" if ":" in host else host
        return f"{_SCHEMES[kind.kind]}://{shown}:{port}{path}"

    def change(self, settings: Settings) -> SettingsReload:
        """Apply other settings as far as that is possible without a restart; the result says which need one.

        `log` has no effect: the program around the node configures logs.
        """
        reloaded = merge(self.settings, settings)
        self.settings = reloaded.settings
        now = reloaded.settings
        self.broker.change_policy(Policy(mqtt=now.mqtt, limits=now.limits, sessions=now.sessions, classes=now.classes))
        if any(change.key == "sys.interval_s" for change in reloaded.changes):
            self.sys_topics.change_interval(now.sys.interval_s)
        return reloaded


@asynccontextmanager
async def running(
    settings: Settings, grace_s: float | None = None, *, own_process: bool = False
) -> AsyncIterator[Node]:
    """Run a node for the length of the block. At its end clients get a DISCONNECT, and have `grace_s` to read it.

    `own_process`: the process is there for the node alone, so it has a control socket even without a data folder,
    and a console unless the settings say otherwise.
    SettingsError if a listener cannot be opened, a file of the settings is wrong, or another process has the data.
    """
    if settings.cluster.is_on:
        # Imported here: a node that is alone does not need the cluster's libraries.
        from holdfast.node.cluster.cluster_embedding import running_in_cluster

        async with running_in_cluster(settings, grace_s, own_process=own_process) as node:
            yield node
        return
    lake = lake_link(settings)
    broker, disk, backends = await assemble(settings, lake)
    try:
        async with control_socket(settings, broker, disk, own_process=own_process) as control, broker:
            listeners = await open_listeners(listener_specs(settings), broker)
            sys_topics = SysTopics(broker, describe(), settings.sys.interval_s)
            sys_topics.start()
            node = Node(settings, broker, listeners, sys_topics, disk, control)
            control.state.node = node
            maintenance = None if disk is None else _start_maintenance(node, disk)
            segments = None if disk is None else _start_segments(disk, control.state)
            history = start_history(settings)
            console = start_console(settings, by_default=own_process)
            try:
                yield node
            finally:
                control.state.is_stopping = True
                await listeners.stop()
                # Before DISCONNECT: what clients have sent is acknowledged, so they need not send it again.
                await _commit_the_rest(broker, disk)
                await broker.queue_backends.settle()
                broker.disconnect_all()
                share_s = node.settings.limits.stop_timeout_s * GRACE_SHARE
                await listeners.close(min(GRACE_S, share_s) if grace_s is None else grace_s)
                await _commit_the_rest(broker, disk)
                await broker.queue_backends.settle()
                await _commit_the_rest(broker, disk)
                await end_task(console)
                if lake is not None:
                    await lake.close()
                await end_history(history)
                await end_task(segments)
                await end_task(maintenance)
    finally:
        try:
            for backend in backends.values():
                await backend.close()
        finally:
            if disk is not None:
                disk.close()


def _start_segments(disk: "DiskStorage", state: NodeState) -> "asyncio.Task[None]":
    # Imported here: a node that keeps everything in memory does not need RocksDB.
    from holdfast.node.processes.segment_supervisor import SegmentSupervisor

    supervisor = SegmentSupervisor(disk)
    state.children = supervisor.pids
    return asyncio.create_task(supervisor.run())


def _start_maintenance(node: Node, disk: "DiskStorage") -> "asyncio.Task[None]":
    # Imported here: a node that keeps everything in memory does not need RocksDB.
    from holdfast.node.disk_maintenance import DiskMaintenance

    return asyncio.create_task(DiskMaintenance(disk, node.settings.storage).run(node.broker, node.fail))


async def _commit_the_rest(broker: Broker, disk: "DiskStorage | ClusterStorage | None") -> None:
    """Commit the last packets of clients and the ends of their sessions. One commit may cause another, a few times."""
    for _round in range(_LAST_ROUNDS):
        broker.exchange.run_iteration()
        if disk is not None:
            disk.flush()
        await asyncio.sleep(0)
