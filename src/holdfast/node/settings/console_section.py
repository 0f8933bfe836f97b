"""The section `console`: where the web console, the API and metrics are served, and to whom."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.broker.policy import Key


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings:
    """The process beside the broker that serves the web console, the API, metrics and health."""

    enabled: Annotated[
        bool | None,
        Key("Whether the broker runs it, and starts it again when it ends. Not set: `holdfast serve` does."),
    ] = None
    host: Annotated[str, Key("Address or name to listen on; `*` means every address.")] = "127.0.0.1"
    port: Annotated[int, Key("Port of HTTP, or of HTTPS with `certificate`; 0 picks a free one.", 0, 65535)] = 18083
    user_file: Annotated[
        Path | None, Key("People with a password and a role; `holdfast console user add` writes it.")
    ] = None
    token_file: Annotated[
        Path | None, Key("Tokens of programs, with a role; `holdfast token add --role` writes it.")
    ] = None
    certificate: Annotated[
        Path | None, Key("Certificate chain, PEM; with it and `key` the port speaks TLS and nothing else.")
    ] = None
    key: Annotated[Path | None, Key("The private key of `certificate`, PEM.")] = None
    behind_proxy: Annotated[
        bool,
        Key("Whether a proxy with TLS stands in front: cookies are for HTTPS, and `X-Forwarded-For` is believed."),
    ] = False
    allowed_hosts: Annotated[
        str,
        Key("Names, with commas, by which browsers and programs reach it. Addresses and `localhost` need no entry."),
    ] = ""
    open_metrics: Annotated[bool, Key("Whether `/metrics` is for all who reach the port, without a token.")] = False

    def hosts(self) -> tuple[str, ...]:
        """The names of `allowed_hosts`."""
        return tuple(name.strip().lower() for name in self.allowed_hosts.split(",") if name.strip())
