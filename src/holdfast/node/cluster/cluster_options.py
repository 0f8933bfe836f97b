"""The cluster of a node, from its settings: servers, credentials, and the settings of each vnode."""

import ssl
from pathlib import Path
from typing import Final

from holdfast.cluster.nats.connection import NatsOptions
from holdfast.cluster.nats.server import ServerOptions, TlsFiles
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.durable.zones import MAX_SHARDS
from holdfast.history.settings import is_loopback
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.node.settings.cluster_section import ClusterSettings, split_address
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
    nats = NatsOptions(
        cluster.urls(),
        cluster.user,
        password,
        name=f"holdfast-{name}",
        in_order=cluster.is_embedded,
        tls=_tls_context(cluster),
    )
    if not cluster.is_embedded:
        monitors = cluster.monitor_addresses()
        return ClusterOptions(cluster.name, nats, cluster.stream_bytes, vnodes, monitors=monitors)
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
        tls=_tls_files(cluster),
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


def exposed_without_tls(cluster: ClusterSettings) -> list[str]:
    """The other machines to which this node and its server talk in clear."""
    if cluster.has_tls:
        return []
    addresses = cluster.routes() if cluster.is_embedded else cluster.urls()
    hosts = [split_address(address.removeprefix("nats://"))[0] for address in addresses if "tls://" not in address]
    return sorted({host for host in hosts if not is_loopback(host)})


def _tls_files(cluster: ClusterSettings) -> TlsFiles | None:
    if cluster.tls_certificate is None or cluster.tls_key is None or cluster.tls_ca is None:
        return None
    return TlsFiles(cluster.tls_certificate, cluster.tls_key, cluster.tls_ca)


def _tls_context(cluster: ClusterSettings) -> ssl.SSLContext | None:
    """What this node shows to servers, and whom it trusts. SettingsError names the file that is wrong."""
    files = _tls_files(cluster)
    if files is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Its own server is reached by loopback, which no certificate has to name.
    own = split_address(cluster.urls()[0].removeprefix("nats://"))[0]
    context.check_hostname = not (cluster.is_embedded and is_loopback(own))

    def no_passphrase() -> str:
        raise SettingsError(f"cluster.tls_key is {files.key}, which is encrypted; store it without a passphrase")

    try:
        context.load_verify_locations(files.ca)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"cluster.tls_ca is {files.ca}, which holds no certificate in PEM form: {error}") from error
    try:
        context.load_cert_chain(files.certificate, files.key, no_passphrase)
    except (OSError, ssl.SSLError) as error:
        pair = f"cluster.tls_certificate is {files.certificate} and cluster.tls_key {files.key}"
        raise SettingsError(f"{pair}; they are no certificate in PEM form with its private key: {error}") from error
    return context


def _read_password(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cluster.password_file is {path}, which cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise SettingsError(f"cluster.password_file is {path}, whose first line is empty; it must be the password")
    return lines[0]
