"""A node of a cluster inside a program: from its server and logs to its listeners, and back.

database ──▶ NATS server, connection, logs ──▶ [installation] ──▶ join, catch up ──▶ broker ──▶ listeners
   ▲                                                                                               │
   └───────────────── in the opposite order when it stops; the epoch stays open ◀──────────────────┘
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.sys_topics import SysTopics
from holdfast.cluster import failpoints
from holdfast.cluster.cluster_node import ClusterNode
from holdfast.cluster.groups.group_wire import GroupWire, subject_of
from holdfast.cluster.membership.cluster_view import view_cluster, view_takeovers
from holdfast.cluster.membership.node_report import cluster_topics
from holdfast.cluster.nats.replaced_servers import ReplacedServers
from holdfast.cluster.node_cluster import ClusterConnection, open_cluster
from holdfast.cluster.node_service import NodeService
from holdfast.cluster.qos0_relay import connect_relay
from holdfast.durable.state_machine.control import founded_row
from holdfast.model.message import Message
from holdfast.node.assembly import authenticator_of, blocks_of, listener_specs, policy_of
from holdfast.node.build_info import describe
from holdfast.node.cluster.cluster_installation import describe_need, open_storage, serve_checkpoints, stage_checkpoint
from holdfast.node.cluster.cluster_options import cluster_options, exposed_without_tls
from holdfast.node.cluster.cluster_storage import ClusterStorage
from holdfast.node.control.control_socket import ControlSocket, control_socket
from holdfast.node.embedding import GRACE_S, GRACE_SHARE, Node
from holdfast.node.processes.console_supervisor import start_console
from holdfast.node.processes.history_supervisor import end_history, start_history
from holdfast.node.processes.segment_supervisor import SegmentSupervisor
from holdfast.node.processes.supervision import end_task
from holdfast.node.settings.tree import Settings
from holdfast.node.system_clock import SystemClock
from holdfast.server.listeners import open_listeners

_log = structlog.get_logger()

#: How long a stop waits for what clients have sent to be decided.
_LAST_COMMITS_S = 2.0
_LOOK_S = 0.01


@asynccontextmanager
async def running_in_cluster(
    settings: Settings, grace_s: float | None, *, own_process: bool = False
) -> AsyncIterator[Node]:
    """As `embedding.running`. It returns when the node has joined, and waits for its cluster until then.

    SettingsError if the cluster is another one than the settings describe. InstallationNeededError if the logs were
    trimmed while it started.
    """
    failpoints.arm(os.environ)
    clock = SystemClock()
    policy = policy_of(settings)
    authenticator = authenticator_of(settings, policy, clock)
    blocks = blocks_of(settings, clock)
    options = cluster_options(settings)
    exposed = exposed_without_tls(settings.cluster)
    if exposed:
        advice = "set cluster.tls_certificate, tls_key and tls_ca, or use a private network"
        _log.warning("servers of the cluster talk in clear", hosts=exposed, advice=advice)
    storage = open_storage(settings, policy, clock)
    try:
        members: list[ClusterNode] = []

        def leads(vnode: int) -> bool:
            return any(member.leads(vnode) for member in members)

        async with open_cluster(options, clock, founded_row(storage.control), leads) as connection:
            while why := await describe_need(storage, connection):
                await stage_checkpoint(settings, storage, connection, why)
                storage.close()
                storage = open_storage(settings, policy, clock)
            member = storage.open_node(connection)
            members.append(member)
            await open_groups(settings, connection, member, storage)
            try:
                await member.start(storage.spawn)
                if storage.failure is not None:
                    raise storage.failure
                broker = Broker(policy, member.clock, authenticator, storage.stores(member), blocks)
                await relay_qos0(settings, connection, member, broker, storage)
                await answer_nodes(member, broker, storage)
                await serve_checkpoints(settings, storage, connection, member)
                if options.server is not None:
                    storage.spawn(ReplacedServers(connection.connection, options).run())
                broker.connections.admission = member
                async with (
                    control_socket(settings, broker, storage, own_process=own_process) as control,
                    broker,
                    _serving(settings, broker, member, storage, control, grace_s, own_process=own_process) as node,
                ):
                    member.connections = lambda: len(broker.connections)
                    yield node
            finally:
                member.close()
                await storage.end_tasks()
    finally:
        storage.close()


async def open_groups(
    settings: Settings, connection: ClusterConnection, member: ClusterNode, storage: ClusterStorage
) -> None:
    """Have the node dispatch and serve groups of shared subscriptions."""
    nats, cluster = connection.connection, settings.cluster
    wire = GroupWire(cluster.name, nats.publish)
    storage.open_groups(member, wire.send)
    assert member.groups is not None
    await nats.listen(subject_of(cluster.name, cluster.node), member.groups.received)
    storage.spawn(wire.run())


async def answer_nodes(member: ClusterNode, broker: Broker, storage: ClusterStorage) -> None:
    """Answer what other nodes, and commands, ask beside the logs."""
    await member.begin.start(broker.freeze.freeze)
    await NodeService(member.claims, broker.kick).start(member.requests)
    run = await member.registries.start()
    if run is not None:
        storage.spawn(run())


async def relay_qos0(
    settings: Settings, connection: ClusterConnection, member: ClusterNode, broker: Broker, storage: ClusterStorage
) -> None:
    """Pass QoS 0 messages on to the nodes that want them, and deliver theirs."""
    node, groups = settings.cluster.node, member.groups
    assert groups is not None

    def deliver(messages: list[Message]) -> None:
        broker.exchange.pass_on(messages)
        groups.pass_on(messages)

    def pass_on(message: Message) -> None:
        relay.add(message)
        groups.pass_on([message])

    relay, filters = await connect_relay(
        connection.connection, settings.cluster.name, node, member.membership.live, deliver, storage.drop_qos0
    )
    broker.exchange.routing.watch = filters
    groups.watch_filters(filters)
    broker.exchange.intake.relay = pass_on
    for work in (relay.run(), filters.run(), filters.keep_time()):
        storage.spawn(work)


@asynccontextmanager
async def _serving(
    settings: Settings,
    broker: Broker,
    member: ClusterNode,
    storage: ClusterStorage,
    control: ControlSocket,
    grace_s: float | None,
    *,
    own_process: bool,
) -> AsyncIterator[Node]:
    listeners = await open_listeners(listener_specs(settings), broker)
    sys_topics = SysTopics(broker, describe(), settings.sys.interval_s, lambda: cluster_topics(member))
    sys_topics.start()
    node = Node(settings, broker, listeners, sys_topics, storage, control)
    control.state.node = node
    control.state.not_ready = lambda: "; ".join(member.readiness.reasons())
    control.state.cluster = lambda: json.dumps(cluster_topics(member))
    control.state.cluster_info = lambda: view_cluster(member)
    control.state.takeovers = lambda session_id: view_takeovers(member, session_id)
    storage.on_failure = node.fail
    if storage.failure is not None:
        node.fail(storage.failure)
    storage.spawn(storage.maintain(broker, member))
    supervisor = SegmentSupervisor(storage)
    control.state.children = supervisor.pids
    storage.spawn(supervisor.run())
    history = start_history(settings)
    console = start_console(settings, by_default=own_process)
    try:
        yield node
    finally:
        control.state.is_stopping = True
        await listeners.stop()
        await _commit_the_rest(broker)
        broker.disconnect_all()
        share_s = node.settings.limits.stop_timeout_s * GRACE_SHARE
        await listeners.close(min(GRACE_S, share_s) if grace_s is None else grace_s)
        # The releases of the last connections.
        await _commit_the_rest(broker)
        await end_task(console)
        await end_history(history)


async def _commit_the_rest(broker: Broker) -> None:
    """Let what clients have sent be decided, if the logs answer."""
    for _look in range(int(_LAST_COMMITS_S / _LOOK_S)):
        broker.exchange.run_iteration()
        if broker.exchange.is_settled():
            break
        await asyncio.sleep(_LOOK_S)
