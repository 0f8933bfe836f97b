"""What a node is and whether it takes messages, from its start to its end, for those who ask by the control socket."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import holdfast
from holdfast.broker.broker import Broker
from holdfast.control.words import ClusterInfo, ListenerInfo, NodeInfo, TakeoverRows
from holdfast.model.errors import PoisonedError
from holdfast.model.reasons import SUCCESS
from holdfast.node.build_info import is_compiled
from holdfast.node.reload import ReloadHistory
from holdfast.node.settings.tree import Settings

if TYPE_CHECKING:
    from holdfast.durable.commit import CommitCounts
    from holdfast.node.embedding import Node

STARTING: Final = "starting"
TAKING: Final = "taking"
REFUSING: Final = "refusing"
STOPPING: Final = "stopping"


class NodeState:
    """One node. It exists before the node lets clients in, and ends with it."""

    def __init__(self, settings: Settings, broker: Broker, commit_counts: "CommitCounts | None" = None) -> None:
        self._settings: Final = settings
        self._broker: Final = broker
        #: None if commits take no time, or are not counted.
        self.commit_counts: Final = commit_counts
        self.started_us: Final = broker.clock.wall_us()
        self.reloads = ReloadHistory()
        self._compiled: Final = is_compiled()
        #: None until clients are let in.
        self.node: Node | None = None
        self.is_stopping = False
        #: In a cluster: why the node serves no clients, empty if it does; and what it knows of its cluster, as JSON.
        self.not_ready: Callable[[], str] = lambda: ""
        self.cluster: Callable[[], str] = lambda: ""
        #: The same in full, and who took over from whom (of a session, or lately); None without a cluster.
        self.cluster_info: Callable[[], ClusterInfo] | None = None
        self.takeovers: Callable[[str], TakeoverRows] | None = None
        #: Processes that work for the broker now, with their ids.
        self.children: Callable[[], Mapping[str, int]] = dict

    def state(self) -> tuple[str, str]:
        """One of the states, and why it takes no messages if it does not."""
        node = self.node
        if self.is_stopping:
            return STOPPING, "the broker stops"
        if node is not None and node.failed.is_set():
            return STOPPING, str(node.failure)
        if node is None:
            return STARTING, "clients are not let in yet"
        if self._broker.exchange.intake.refusing != SUCCESS:
            return REFUSING, "the disk has too little room; make room, or lower storage.min_free_bytes"
        not_ready = self.not_ready()
        return (REFUSING, not_ready) if not_ready else (TAKING, "")

    @property
    def is_poisoned(self) -> bool:
        """Whether the node ends because a part of it that stores cannot go on."""
        return self.node is not None and isinstance(self.node.failure, PoisonedError)

    def listeners(self) -> list[ListenerInfo]:
        """The listeners that are open, with their connections."""
        if self.node is None:
            return []
        connections = self.node.listeners.connections
        return [
            ListenerInfo(
                name,
                connections[name].spec.kind,
                host,
                port,
                len(connections[name].links),
                connections[name].spec.mount_point,
                connections[name].spec.proxy_protocol,
            )
            for name, (host, port) in self.node.listeners.addresses().items()
        ]

    def opened_connections(self) -> dict[str, float]:
        """By listener: connections that were accepted since the start."""
        if self.node is None:
            return {}
        return {name: float(one.opened) for name, one in self.node.listeners.connections.items()}

    def certificate_expiries(self) -> dict[str, float] | None:
        """By listener: when its certificate ends. None while there are no listeners yet, or if it is known of none."""
        if self.node is None:
            return None
        ends = self.node.listeners.certificate_expiries()
        known = {name: at_s for name, at_s in ends.items() if at_s}
        return known if known or not ends else None

    def info(self) -> NodeInfo:
        state, detail = self.state()
        storage = self._settings.storage
        return NodeInfo(
            version=holdfast.__version__,
            compiled=self._compiled,
            pid=os.getpid(),
            started_us=self.started_us,
            now_us=self._broker.clock.wall_us(),
            state=state,
            detail=detail,
            durability=storage.durability,
            data_folder=str(storage.data.absolute()) if self._settings.on_disk() else "",
            listeners=tuple(self.listeners()),
            cluster=self.cluster(),
        )
