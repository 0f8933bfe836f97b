"""Rules of a node in a cluster. `rules` adds the sources of the values.

1. What a node acknowledges is in a log that a majority of servers has synced. Settings that promise less, or deliver
   before it is known whether a message counts, have no meaning there.
2. All nodes apply the same records alike. What one node stores differently, or outside the log, the others would lack.
3. Whatever a client sends fits into a record.
4. The logs have three copies, on three servers that reach each other.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from holdfast.broker.policy import LOG
from holdfast.history.settings import is_loopback
from holdfast.node.settings.cluster_section import ClusterSettings, split_address
from holdfast.node.settings.tree import Settings
from holdfast.records.cluster.record import MAX_RECORD_BYTES

#: Servers that keep each log: it survives the loss of one.
SERVERS: Final = 3
#: A message stands in its record beside its client id, session id and user, of up to 65,535 bytes each.
MAX_PACKET_BYTES: Final = MAX_RECORD_BYTES - (256 << 10)

#: Layouts that write everything with the message.
LAYOUTS: Final = ("paged", "timeline", "bitmask")

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]{1,128}")
_MAX_PORT: Final = 65535

#: A key, its problem, and the other keys that cause it.
_Found = Iterator[tuple[str, ...]]


def cluster_problems(settings: Settings) -> _Found:
    """A key, its problem, and the other keys that cause it."""
    if not settings.cluster.is_on:
        return
    yield from _own_problems(settings)
    for key, text in (*_storage_problems(settings), *_zone_problems(settings), *_client_problems(settings)):
        yield key, text, "cluster.name"


# ---- the section itself


def _own_problems(settings: Settings) -> _Found:
    cluster = settings.cluster
    if not _NAME.fullmatch(cluster.name):
        yield "cluster.name", f"is {cluster.name!r}; it must be 1 to 64 letters, digits, dashes and underscores"
    if cluster.node == 0:
        yield "cluster.node", "is not set; give each node of the cluster a different number, from 1", "cluster.name"
    if not _PLAIN.fullmatch(cluster.user):
        yield "cluster.user", f"is {cluster.user!r}; it must be 1 to 128 letters, digits and the signs - _ . ~"
    if cluster.password_file is None:
        text = (
            "is not set; only nodes of the cluster may write to its logs. Make one, and copy it to every node:\n"
            "    openssl rand -hex 32 > cluster.password"
        )
        yield "cluster.password_file", text, "cluster.name"
    if cluster.kept_bytes > cluster.stream_bytes // 2:
        text = (
            f"is {cluster.catch_up_bytes}, and half of cluster.stream_bytes has to stay free for what is written; "
            f"write {cluster.stream_bytes // 2} or less, or 0 for a quarter of it"
        )
        yield "cluster.catch_up_bytes", text, "cluster.stream_bytes"
    if cluster.mqtt_address and not _is_reachable(cluster.mqtt_address):
        yield "cluster.mqtt_address", f"is {cluster.mqtt_address!r}; it must be host:port, such as '10.0.0.1:1883'"
    yield from _tls_problems(cluster)
    yield from _embedded_problems(cluster) if cluster.is_embedded else _url_problems(cluster)


def _tls_problems(cluster: ClusterSettings) -> _Found:
    files = {key: getattr(cluster, key) for key in ("tls_certificate", "tls_key", "tls_ca")}
    given = [key for key, path in files.items() if path is not None]
    for key, path in files.items():
        if given and path is None:
            text = f"is not set, and {given[0]} is; TLS in a cluster is mutual: set tls_certificate, tls_key and tls_ca"
            yield f"cluster.{key}", text, *[f"cluster.{other}" for other in given]


def _url_problems(cluster: ClusterSettings) -> _Found:
    if not cluster.urls():
        yield "cluster.nats", "is empty; write 'embedded', or addresses such as 'nats://10.0.0.1:4222'"
    for url in cluster.urls():
        if not url.startswith(("nats://", "tls://")) or "@" in url:
            text = "is no address of a NATS server; it must be nats://host:port, with user and password_file beside it"
            yield "cluster.nats", text
    monitors = set(cluster.monitor_addresses())
    if 0 < len(monitors) < SERVERS:
        text = f"names {len(monitors)} servers; it must be {SERVERS} or more, since each log has {SERVERS} copies"
        yield "cluster.monitors", text, "cluster.nats"
    for address in monitors:
        if not _is_reachable(address):
            yield "cluster.monitors", f"has {address!r}; it must be host:port, such as '10.0.0.1:8222'", "cluster.nats"
    if cluster.peers:
        yield "cluster.peers", "is set, and nats names servers that know each other; remove one of them", "cluster.nats"


def _embedded_problems(cluster: ClusterSettings) -> _Found:
    if cluster.monitors:
        yield "cluster.monitors", "is set, and this node runs its own server; remove one of them", "cluster.nats"
    routes = cluster.routes()
    hosts = [split_address(route)[0] for route in routes]
    for route in routes:
        host, port = split_address(route)
        if not host or port is None or not 1 <= port <= _MAX_PORT:
            yield "cluster.peers", f"has {route!r}; it must be host:port, such as '10.0.0.1:6222'", "cluster.nats"
    one_name = len(routes) == 1 and not _is_address(hosts[0])
    if len(set(routes)) < SERVERS and not one_name:
        text = (
            f"names {len(set(routes))} servers; it must be {SERVERS} or more, this node's among them, since each log "
            f"has {SERVERS} copies; or one name that DNS resolves to all of them"
        )
        yield "cluster.peers", text, "cluster.nats"
    if is_loopback(cluster.cluster_host) and not all(is_loopback(host) for host in hosts):
        text = f"is {cluster.cluster_host}, where other machines do not reach it; write its address in their network"
        yield "cluster.cluster_host", text, "cluster.peers"
    ports = {
        "client_port": cluster.client_port,
        "cluster_port": cluster.cluster_port,
        "monitor_port": cluster.monitor_port,
    }
    seen: dict[int, str] = {}
    for key, port in ports.items():
        if port in seen:
            yield (
                f"cluster.{key}",
                f"is {port}, as is {seen[port]}; give each its own port",
                f"cluster.{seen[port]}",
            )
        seen[port] = key


def _is_reachable(address: str) -> bool:
    host, port = split_address(address)
    return bool(host) and not set(host) & set(" ,/") and port is not None and 1 <= port <= _MAX_PORT


def _is_address(host: str) -> bool:
    """Whether a host is one machine for certain: an address, or this machine."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


# ---- settings of a node that a cluster does not have


def _storage_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    storage = settings.storage
    if storage.durability != "fsync":
        text = (
            f"is {storage.durability!r}, and what a cluster acknowledges is synced by a majority of its servers; write "
            "'fsync'"
        )
        yield "storage.durability", text
    if storage.on_write_error == "warn":
        text = "is 'warn', and all nodes apply the same records, so none may leave out what it acknowledges"
        yield "storage.on_write_error", f"{text}; write 'refuse'"
    yield from _layout_problems("storage", storage.layout)
    yield from _kept_problems("storage", storage.deliver_qos1, storage.shards)


def _zone_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    for name, zone in settings.zones.items():
        if zone.durability not in (None, "fsync"):
            text = f"is {zone.durability!r}, and all zones of a cluster lie in its synced logs; remove it"
            yield f"zones.{name}.durability", text
        if not zone.store:
            text = "is false, and messages pass through the logs of the cluster, which are stored; remove it"
            yield f"zones.{name}.store", text
        yield from _layout_problems(f"zones.{name}", zone.layout)
        yield from _kept_problems(f"zones.{name}", zone.deliver_qos1, zone.shards)


def _layout_problems(prefix: str, layout: str | None) -> Iterator[tuple[str, str]]:
    if layout is not None and layout not in LAYOUTS:
        text = f"is {layout!r}, whose index a node of a cluster does not write; write {' or '.join(map(repr, LAYOUTS))}"
        yield f"{prefix}.layout", text


def _kept_problems(prefix: str, deliver_qos1: str, shards: int) -> Iterator[tuple[str, str]]:
    if deliver_qos1 == "before_commit":
        text = "is 'before_commit', and a message counts only once its record is applied; write 'after_commit'"
        yield f"{prefix}.deliver_qos1", text
    if shards != 1:
        text = f"is {shards}, and in a cluster a zone has one shard for each of cluster.vnodes; remove it"
        yield f"{prefix}.shards", text


def _client_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    queues = {"sessions.queue": settings.sessions.queue}
    queues |= {f"classes.{name}.queue": rule.queue for name, rule in settings.classes.items()}
    for key, backend in queues.items():
        if backend == "journal":
            yield key, "is 'journal', whose files are on one node alone; write 'log'"
        elif backend != LOG:
            yield key, f"is {backend!r}, which nodes of a cluster do not fill yet; write 'log'"
    if settings.mqtt.max_packet_size > MAX_PACKET_BYTES:
        text = f"is {settings.mqtt.max_packet_size}, and a record of the cluster has room for {MAX_PACKET_BYTES}"
        yield "mqtt.max_packet_size", f"{text}; write that, or less"
