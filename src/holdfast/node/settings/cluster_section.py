"""The section `cluster`: several nodes as one broker. Without `cluster.name` a node is alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from holdfast.broker.policy import Key

#: In place of addresses: each node runs its own server.
EMBEDDED: Final = "embedded"
#: The ports of NATS itself.
DEFAULT_CLIENT_PORT: Final = 4222
DEFAULT_CLUSTER_PORT: Final = 6222
DEFAULT_MONITOR_PORT: Final = 8222

_LOOPBACK: Final = "127.0.0.1"
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Several nodes as one broker; needs `pip install holdfast[cluster]`. Without `name` there is no cluster."""

    name: Annotated[
        str, Key("The name of the cluster: letters, digits, dashes and underscores. Empty: this node is alone.")
    ] = ""
    node: Annotated[
        int, Key("The number of this node, which no other node of the cluster has; from 1.", 0, 0xFFFFFFFF)
    ] = 0
    vnodes: Annotated[
        int, Key("Ordered logs that sessions are divided into. Fixed by `holdfast cluster init`.", 1, 256)
    ] = 4
    nats: Annotated[
        str,
        Key(
            "Where the ordered logs are kept. `embedded`: each node runs a NATS server. Otherwise addresses of "
            "servers, such as `nats://10.0.0.1:4222`, several with commas between them."
        ),
    ] = EMBEDDED
    peers: Annotated[
        str,
        Key(
            "For `embedded`: host and cluster port of the servers of all nodes, such as `10.0.0.1:6222`, with commas "
            "between them; this node's may be among them. Or one name that DNS resolves to all of them."
        ),
    ] = ""
    monitors: Annotated[
        str,
        Key(
            "For addresses of servers: `host:port` of the monitoring endpoint of each of them (`http` in its "
            "settings), with commas between them; `cluster init` needs it. A node without it asks the servers in their "
            "system account whether they sync (user with the suffix `-system`), and does not start if it may not."
        ),
    ] = ""
    client_host: Annotated[
        str, Key("For `embedded`: address at which the server takes connections of nodes without a server.")
    ] = "127.0.0.1"
    client_port: Annotated[int, Key("For `embedded`: port of these connections.", 1, 65535)] = DEFAULT_CLIENT_PORT
    cluster_host: Annotated[str, Key("For `embedded`: address at which other servers reach this one.")] = "127.0.0.1"
    cluster_port: Annotated[int, Key("For `embedded`: port of the servers among themselves.", 1, 65535)] = (
        DEFAULT_CLUSTER_PORT
    )
    monitor_port: Annotated[
        int, Key("For `embedded`: port on loopback at which the server reports about itself.", 1, 65535)
    ] = DEFAULT_MONITOR_PORT
    user: Annotated[str, Key("User of the nodes at the servers: letters, digits and the signs `- _ . ~`.")] = "holdfast"
    password_file: Annotated[
        Path | None,
        Key("A file whose first line is that user's password, the same on all nodes; every cluster needs it."),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        Key(
            "This node's certificate chain, PEM, for both ends of a connection: its server shows it to other servers "
            "and to nodes, and the node to servers. With `tls_key` and `tls_ca`, all these connections are mutual TLS; "
            "without them none is."
        ),
    ] = None
    tls_key: Annotated[Path | None, Key("The private key of `tls_certificate`, PEM.")] = None
    tls_ca: Annotated[
        Path | None, Key("Authorities that sign the certificates of all nodes and servers, PEM, and no others.")
    ] = None
    # A gigabyte is minutes of full load. A quarter of it is kept for members that are away.
    stream_bytes: Annotated[
        int, Key("Bytes that each ordered log may have; a full log takes nothing more. At least 64 MiB.", 64 << 20)
    ] = 1 << 30
    catch_up_bytes: Annotated[
        int,
        Key(
            "Bytes of each ordered log that are kept for members that are away or behind: with more to read they are "
            "installed from another node. At most half of `stream_bytes`; 0: a quarter of it.",
            0,
        ),
    ] = 0

    @property
    def kept_bytes(self) -> int:
        """`catch_up_bytes` as it counts."""
        return self.catch_up_bytes or self.stream_bytes // 4

    max_lag_s: Annotated[
        float,
        Key("Seconds that a node may be behind the logs. Further behind it is not ready: clients go elsewhere.", 1),
    ] = 10.0
    max_skew_s: Annotated[
        float,
        Key("Seconds that the clock of a node may be away from the middle one of all nodes; beyond, as above.", 1),
    ] = 30.0
    patience_s: Annotated[
        float, Key("Seconds in which nothing of a node is accepted by a log, after which its clients are sent away.", 1)
    ] = 10.0
    mqtt_address: Annotated[
        str, Key("`host:port` at which MQTT clients reach this node. Other nodes name it to clients, see `redirect`.")
    ] = ""
    redirect: Annotated[
        bool,
        Key("Send MQTT 5 clients that this node cannot serve to others (0x9C), by the `mqtt_address` of those."),
    ] = False

    @property
    def is_on(self) -> bool:
        return bool(self.name)

    @property
    def is_embedded(self) -> bool:
        return self.nats.strip() == EMBEDDED

    @property
    def has_tls(self) -> bool:
        return self.tls_certificate is not None and self.tls_key is not None and self.tls_ca is not None

    def routes(self) -> tuple[str, ...]:
        """`host:port` of each peer; one without a port has the default."""
        return tuple(peer if _port_of(peer) is not None else _with_port(peer) for peer in _parts(self.peers))

    def monitor_addresses(self) -> tuple[str, ...]:
        """`host:port` of each monitoring endpoint; one without a port has the default."""
        given = _parts(self.monitors)
        return tuple(one if _port_of(one) is not None else _with_port(one, DEFAULT_MONITOR_PORT) for one in given)

    def urls(self) -> tuple[str, ...]:
        """Addresses of the servers for clients: this node's own one, or those that are named."""
        if not self.is_embedded:
            return _parts(self.nats)
        host = _LOOPBACK if self.client_host in _EVERY_ADDRESS else self.client_host
        return (f"nats://{_with_port(host, self.client_port)}",)


def split_address(address: str) -> tuple[str, int | None]:
    """Host and port of `host:port` or `[v6]:port`; without a port None."""
    port = _port_of(address)
    return (address if port is None else address.rpartition(":")[0]).strip("[]"), port


def _port_of(address: str) -> int | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or (":" in host and not host.endswith("]")):
        return None
    return int(port)


def _with_port(host: str, port: int = DEFAULT_CLUSTER_PORT) -> str:
    is_v6 = ":" in host and not host.startswith("[")
    return f"[{host}]:{port}" if is_v6 else f"{host}:{port}"


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
