"""What an operator says of one listener. The modules of this package read it, and nothing else of the settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from holdfast.model.errors import SettingsError

Kind = Literal["tcp", "tls", "ws", "wss"]

#: Bytes of one WebSocket message at most, unless packets may be larger.
MESSAGE_LIMIT_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True)
class ListenerSpec:
    """What an operator says of one listener. Impossible combinations raise SettingsError."""

    name: str
    kind: Kind = "tcp"
    #: An address or name; `localhost` is both loopbacks, `*` is every address, `::` every IPv6 address.
    host: str = "127.0.0.1"
    #: 0 picks a free one.
    port: int = 1883
    mount_point: str = ""
    allow_anonymous: bool = False
    #: Whether each connection begins with a PROXY header, version 2. A client that reaches such a listener can claim
    #: any address.
    proxy_protocol: bool = False
    #: TLS: the server's certificate, followed by the intermediate ones.
    certificate: Path | None = None
    key: Path | None = None
    #: TLS: the CA of client certificates; without it clients are not asked for one.
    client_ca: Path | None = None
    #: TLS: whether a client without a certificate is refused; if not, it needs other credentials.
    require_client_certificate: bool = False
    #: TLS: revocation lists of the CA; without them no client certificate counts as revoked.
    crl: Path | None = None
    #: WebSocket: where MQTT is; another path is answered with 404.
    path: str = "/mqtt"
    #: WebSocket: pages that may connect, as their `Origin` header (`https://example.org`); None for any. A client that
    #: is no browser sends no such header, and is accepted.
    allowed_origins: tuple[str, ...] | None = None
    #: WebSocket: at least the largest packet, which many clients send as one message.
    max_message_bytes: int = MESSAGE_LIMIT_BYTES
    #: None for no limit but the machine's.
    max_connections: int | None = None
    #: Seconds for each of: PROXY header, TLS handshake, WebSocket handshake.
    handshake_deadline_s: float = 10.0

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.kind in ("tls", "wss")

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise SettingsError(f"listener {self.name}: {problem}")

    def _problem(self) -> str | None:
        if self.kind not in get_args(Kind):
            return f"kind {self.kind!r} is unknown; choose one of {', '.join(get_args(Kind))}"
        if not 0 <= self.port <= 65535:
            return f"port {self.port} is out of range; choose 1 to 65535, or 0 for any free one"
        if self.secure and (self.certificate is None or self.key is None):
            return f"{self.kind} needs certificate and key, both PEM files"
        files = (self.certificate, self.key, self.client_ca, self.crl)
        if not self.secure and (any(files) or self.require_client_certificate):
            return f"{self.kind} is not encrypted; take certificates off, or choose kind tls or wss"
        if self.require_client_certificate and self.client_ca is None:
            return "require_client_certificate needs client_ca, the file of those who sign client certificates"
        if self.crl is not None and self.client_ca is None:
            return "crl needs client_ca, the file of those who sign client certificates"
        if self.mount_point and not self.mount_point.endswith("/"):
            return f"mount_point {self.mount_point!r} has to end with /, so that it is whole levels of a topic"
        if "+" in self.mount_point or "#" in self.mount_point or "\0" in self.mount_point:
            return f"mount_point {self.mount_point!r} may not contain wildcards"
        if not self.path.startswith("/"):
            return f"path {self.path!r} has to begin with /"
        if self.max_connections is not None and self.max_connections < 1:
            return "max_connections has to be at least 1; leave it out for no limit"
        return None
