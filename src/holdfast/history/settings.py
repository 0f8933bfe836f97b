"""The section `history`: who may read stored messages, and where they are served.

`node.settings` makes it part of the settings tree and reads files and environment; this module reads nothing.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.broker.policy import Key
from holdfast.model.time import DAY_S


@dataclass(frozen=True, kw_only=True)
class History:
    """The process beside the broker that serves stored messages by Arrow Flight and HTTP."""

    enabled: Annotated[bool, Key("Whether `holdfast serve` runs it, and starts it again when it ends.")] = False
    host: Annotated[str, Key("Address or name to listen on; `*` means every address.")] = "127.0.0.1"
    flight_port: Annotated[int, Key("Port of Arrow Flight; 0 picks a free one.", 0, 65535)] = 18815
    http_port: Annotated[int, Key("Port of HTTP; 0 picks a free one.", 0, 65535)] = 18084
    token_file: Annotated[
        Path | None,
        Key("Who may read; `holdfast token add` writes it. Not set, all may, and only this machine is served."),
    ] = None
    certificate: Annotated[
        Path | None, Key("Certificate chain, PEM; with it and `key`, both ports speak TLS and nothing else.")
    ] = None
    key: Annotated[Path | None, Key("The private key of `certificate`, PEM.")] = None
    # A scan uses one processor. More scans at a time do not make any of them faster, and each keeps files open.
    max_readers: Annotated[int, Key("Scans at one time; further ones wait.", 1, 64)] = 4
    max_requests: Annotated[
        int,
        Key("HTTP requests that are answered at one time; further ones get 503. `/healthz` does not count.", 1, 1024),
    ] = 64
    max_requests_per_address: Annotated[
        int,
        Key(
            "The same for one address, an IPv4 address or an IPv6 /64; further ones get 429. Raise it behind a proxy.",
            1,
            1024,
        ),
    ] = 16
    lease_max_age_s: Annotated[
        int,
        Key(
            "Seconds after its last renewal for which a pipeline's lease holds up retention.",
            60,
        ),
    ] = 3 * DAY_S
    lake: Annotated[
        str,
        Key(
            "Where the archive of this broker lies: a folder, or an address such as `s3://BUCKET/PATH`. Replays of "
            "MQTT clients read from there what the log does not have any more; empty for none. Needs `enabled`."
        ),
    ] = ""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. Any name other than localhost counts as reachable by others."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
