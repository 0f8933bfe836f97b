"""The installation of a node: whether it needs one, from which members, and the checkpoints that it serves to others.

at a start   compare the applied places with the logs ──▶ INSTALL, or `install.json` says so
               ──▶ fetch a checkpoint into `install/` ──▶ close the database, swap, open it ──▶ compare again
later        an applier finds its log trimmed, or the digests of the others differ ──▶ `install.json`, and the node
               is closed and started again, by this process or the next one
"""

from typing import Final

import structlog

from holdfast.broker.policy import Policy
from holdfast.cluster import failpoints
from holdfast.cluster.administration import replay_control
from holdfast.cluster.checkpoint.install import CheckpointInstaller, ClusterView
from holdfast.cluster.checkpoint.source import CheckpointSource
from holdfast.cluster.cluster_node import ClusterNode
from holdfast.cluster.node_cluster import ClusterConnection
from holdfast.cluster.vnodes.applier import applied_place, describe_places
from holdfast.durable.ordered_log import INSTALL, compare
from holdfast.durable.state_machine.control import all_members, last_beat
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError, TransientError
from holdfast.node.cluster.cluster_storage import ClusterStorage
from holdfast.node.settings.tree import Settings
from holdfast.records.cluster.checkpoint import Hold, decode_checkpoint_message
from holdfast.storage.rocks.checkpoint import (
    CHECKPOINTS_NAME,
    STAGING_NAME,
    complete_installation,
    create_checkpoint,
    find_installation,
    note_staged,
)

_log = structlog.get_logger()

#: Seconds that a piece of a checkpoint may take: its node serves clients meanwhile.
_PIECE_S: Final = 10.0


def open_storage(settings: Settings, policy: Policy, clock: Clock) -> ClusterStorage:
    """The stores of the node, with a checkpoint in place that was staged. It fails as `ClusterStorage` does."""
    installed = complete_installation(settings.storage.data, failpoints.reach)
    storage = ClusterStorage(settings, policy, clock)
    if installed:
        failpoints.reach("install.done")
    return storage


async def describe_need(storage: ClusterStorage, connection: ClusterConnection) -> str:
    """Why the database has to be replaced by that of another node before this one can serve; empty if it need not.

    A log that does not answer is not waited for, nor is a row judged that cannot be read: its applier does both later.
    """
    wanted = find_installation(storage.engine.folder)
    if wanted is not None:
        return wanted.why
    for number, log in enumerate(connection.vnodes):
        try:
            ends = await log.ends()
            place = applied_place(storage.vnodes.vnodes[number])
        except (TransientError, PermanentError) as error:
            _log.info("the log of a vnode is not compared before the start", vnode=number, why=str(error))
            continue
        if compare(place, ends) == INSTALL:
            return f"the log of vnode {number} was trimmed: {describe_places(place, ends)}"
    return ""


async def stage_checkpoint(
    settings: Settings, storage: ClusterStorage, connection: ClusterConnection, why: str
) -> None:
    """Fetch the checkpoint of another member, for as long as it takes. Ensures: the next step is to swap it in."""
    _log.warning("node is installed from another one", why=why)
    node, folder = settings.cluster.node, storage.engine.folder

    async def ask(source: int, request: bytes) -> bytes:
        return await connection.connection.request(_subject(settings, source), request, _PIECE_S)

    async def look() -> ClusterView:
        try:
            _founded, tables = await replay_control(connection.control)
        except PermanentError as error:
            raise TransientError(f"the control log cannot be read: {error}") from error
        live = [other for other, row in all_members(tables).items() if row.lives and other != node]
        beats = [(other, last_beat(tables, other)) for other in live]
        ready = {other: row.beat.vnodes for other, row in beats if row is not None and row.beat.ready}
        order = sorted(ready, key=lambda other: -sum(vnode.applied for vnode in ready[other]))
        least = [max(0, (await log.ends()).first - 1) for log in connection.vnodes]
        return ClusterView(order, tuple(least))

    cluster_id = connection.founded.cluster_id
    installer = CheckpointInstaller(cluster_id, node, folder / STAGING_NAME, ask, look, storage.clock)
    await installer.run()
    note_staged(folder, why)


async def serve_checkpoints(
    settings: Settings, storage: ClusterStorage, connection: ClusterConnection, member: ClusterNode
) -> None:
    """Let other members be installed from this one, and hold the logs that it leads while they are."""
    announced = f"holdfast-{settings.cluster.name}.checkpoint.hold"
    cluster_id = connection.founded.cluster_id

    async def announce(message: bytes) -> None:
        connection.connection.publish(announced, message)

    def heard(content: bytes) -> None:
        try:
            message = decode_checkpoint_message(content)
        except PermanentError as error:
            _log.warning("an announcement of a checkpoint cannot be read", why=str(error))
            return
        if message.cluster_id == cluster_id and isinstance(message.said, Hold):
            member.holds.announced(message.node, message.said.sequences)

    source = CheckpointSource(
        cluster_id,
        settings.cluster.node,
        storage.engine.folder / CHECKPOINTS_NAME,
        lambda folder: create_checkpoint(storage.engine, folder),
        member.caught_up,
        announce,
        storage.clock,
    )
    await connection.connection.listen(announced, heard)
    await connection.connection.answer(_subject(settings, settings.cluster.node), source.answer)
    storage.spawn(source.run())


def _subject(settings: Settings, node: int) -> str:
    return f"holdfast-{settings.cluster.name}.checkpoint.node-{node}"
