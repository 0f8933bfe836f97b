"""Where a connection comes from. Apart from the contract of handlers, because it is compiled."""

from typing import Final


class Origin:
    """What a listener says of a connection when it hands it over."""

    def __init__(
        self,
        listener: str,
        address: str,
        port: int,
        transport: str,
        tls_subject: str | None = None,
        mount_point: str = "",
        *,
        allow_anonymous: bool = False,
    ) -> None:
        #: The listener's name in the settings, for logs and rules.
        self.listener: Final = listener
        #: The client's address as text; behind a PROXY header, the one it states.
        self.address: Final = address
        self.port: Final = port
        #: `tcp`, `tls`, `ws` or `wss`.
        self.transport: Final = transport
        #: The subject's common name of a verified client certificate; it is the user name then.
        self.tls_subject: Final = tls_subject
        #: Put in front of every topic of this connection, and taken off on the way out; empty for none.
        self.mount_point: Final = mount_point
        #: Whether clients may come without credentials here.
        self.allow_anonymous: Final = allow_anonymous
