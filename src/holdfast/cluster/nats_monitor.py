"""What a NATS server reports about itself at its monitoring endpoint, and whether the cluster can rely on it.

`sync_always` is at no other place: a client cannot ask whether a server syncs what it acknowledges.
"""

import asyncio
import http.client
import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.model.errors import SettingsError, TransientError

#: The oldest server whose behaviour was tested.
LEAST_VERSION: Final = (2, 15)
#: 8 MiB: a record of a log and what stands around it (`records/cluster/record`).
MAX_PAYLOAD_BYTES: Final = 8 << 20
_TIMEOUT_S: Final = 2.0

Report = dict[str, Any]


async def read_report(port: int, host: str = "127.0.0.1", page: str = "/varz") -> Report:
    """The server's report. TransientError: it does not answer, or not with a report."""
    return await asyncio.to_thread(_read, host, port, page)


def _read(host: str, port: int, page: str) -> Report:
    # Not urllib: a proxy in the environment is not for loopback.
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", page)
        answer = connection.getresponse()
        report = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TransientError(f"no report of a NATS server at {host}:{port}{page}: {error}") from error
    finally:
        connection.close()
    if not isinstance(report, dict):
        raise TransientError(f"no report of a NATS server at {host}:{port}{page}: it is no JSON object")
    return report


def check_report(report: Report) -> None:
    """SettingsError: the server loses what it has acknowledged, or does not take what the cluster sends."""
    name = report.get("server_name", "?")
    jetstream = report.get("jetstream") or {}
    config = jetstream.get("config") or {}
    for what, found, right, is_right in _expected(report, config):
        if not is_right(found):
            raise SettingsError(f"NATS server {name} has {what} = {found!r}; right would be {right}")


def _expected(report: Report, config: Report) -> list[tuple[str, Any, str, Callable[[Any], bool]]]:
    least = ".".join(str(part) for part in LEAST_VERSION)
    return [
        ("version", report.get("version"), f"{least} or later", lambda found: _version(found) >= LEAST_VERSION),
        ("jetstream", "enabled" if config else "disabled", "enabled", lambda found: found == "enabled"),
        ("sync_always", config.get("sync_always"), 'true: jetstream { sync_interval: "always" }', bool),
        ("max_payload", report.get("max_payload"), f"{MAX_PAYLOAD_BYTES}", lambda found: found == MAX_PAYLOAD_BYTES),
    ]


def _version(text: object) -> tuple[int, ...]:
    """(2, 15) of `2.15.1-RC.2`; () of anything else."""
    parts = str(text).split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def describe_missing_servers(report: Report, servers: int) -> str:
    """Which of so many servers this one does not see; empty if it sees all. Streams are made when all are there."""
    meta = (report.get("jetstream") or {}).get("meta") or {}
    if not meta.get("leader"):
        return "the servers have no leader yet"
    away = [str(one.get("name")) for one in meta.get("replicas") or [] if one.get("offline")]
    if away:
        return f"away: {', '.join(away)}"
    size = int(meta.get("cluster_size", 0))
    return "" if size >= servers else f"{size} of {servers} servers are there"
