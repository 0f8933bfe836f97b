"""The cluster of a node, from its settings: servers, credentials, and the settings of each vnode."""

from pathlib import Path
from typing import Final

from holdfast.cluster.nats_connection import NatsOptions
from holdfast.cluster.nats_server import ServerOptions
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.durable.zones import MAX_SHARDS
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.node.settings.tree import Settings
from holdfast.node.settings.zones import zones_of
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.generations import Parameter
from holdfast.topics.names import SEPARATOR

#: The folder of the embedded server, in the data folder.
SERVER_FOLDER: Final = "nats"
#: What a server keeps beside the records of its streams.
_OVERHEAD_BYTES: Final = 64 << 20


def cluster_options(settings: Settings) -> ClusterOptions:
    """Requires: the settings keep their rules, and name a cluster. SettingsError: the password cannot be read."""
    cluster = settings.cluster
    if not cluster.is_on or cluster.password_file is None:
        raise MisuseError("the settings name no cluster, or no password of one")
    password = _read_password(cluster.password_file)
    vnodes = vnode_settings(settings)
    name = f"node-{cluster.node}"
    nats = NatsOptions(cluster.urls(), cluster.user, password, name=f"holdfast-{name}", in_order=cluster.is_embedded)
    if not cluster.is_embedded:
        return ClusterOptions(cluster.name, nats, cluster.stream_bytes, vnodes)
    server = ServerOptions(
        cluster=cluster.name,
        node=name,
        folder=settings.storage.data / SERVER_FOLDER,
        user=cluster.user,
        password=password,
        client_port=cluster.client_port,
        cluster_port=cluster.cluster_port,
        monitor_port=cluster.monitor_port,
        routes=cluster.routes(),
        store_bytes=(len(vnodes) + 1) * cluster.stream_bytes + _OVERHEAD_BYTES,
        client_host=cluster.client_host,
        cluster_host=cluster.cluster_host,
    )
    return ClusterOptions(cluster.name, nats, cluster.stream_bytes, vnodes, server)


def vnode_settings(settings: Settings) -> tuple[VnodeSettings, ...]:
    """The zones of each vnode. A zone has a shard in every vnode; no two shards have one number."""
    zones, default, mounts = zones_of(settings)
    count = settings.cluster.vnodes
    if (len(zones) + 1) * count > MAX_SHARDS:
        raise SettingsError(f"{len(zones) + 1} zones in {count} vnodes are more shards than the {MAX_SHARDS} there are")
    # Sorted: the order in a file is no difference between two nodes.
    named, ends = sorted(zones, key=lambda zone: zone.name), tuple(sorted(mounts))
    found: list[VnodeSettings] = []
    for vnode in range(count):
        kept: list[VnodeZone] = []
        for index, zone in enumerate([default, *named]):
            parameters: dict[str, Parameter] = {"thresholds": zone.thresholds} if zone.thresholds else {}
            filters = tuple(SEPARATOR.join(levels) for levels in zone.filters)
            shard = index * count + vnode
            kept.append(VnodeZone(zone.name, shard, zone.layout, parameters, filters, store_qos0=zone.store_qos0))
        found.append(VnodeSettings(tuple(kept), ends))
    return tuple(found)


def _read_password(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cluster.password_file is {path}, which cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise SettingsError(f"cluster.password_file is {path}, whose first line is empty; it must be the password")
    return lines[0]
