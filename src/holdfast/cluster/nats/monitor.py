"""What a NATS server reports about itself at its monitoring endpoint, and whether the cluster can rely on it.

`sync_always` is in this report alone, which is told at the endpoint and to the system account (`system_account`): an
ordinary client cannot ask whether a server syncs what it acknowledges.
"""

import asyncio
import http.client
import json
from collections.abc import Callable, Sequence
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


async def check_servers(monitors: Sequence[str], needed: int) -> None:
    """Look at the reports of servers, by the `host:port` of their monitoring endpoints.

    TransientError: fewer than `needed` answer. SettingsError: one that answers is not fit for use, or two of them are
    one server.
    """
    names: dict[str, str] = {}
    away: list[str] = []
    for monitor in monitors:
        host, _, port = monitor.rpartition(":")
        try:
            report = await read_report(int(port), host.strip("[]"))
        except TransientError as error:
            away.append(str(error))
            continue
        check_report(report)
        name = str(report.get("server_name"))
        if name in names:
            raise SettingsError(
                f"cluster.monitors has {names[name]} and {monitor}, which are one NATS server, {name}; name each "
                "server once, and three or more"
            )
        names[name] = monitor
    if len(names) < needed:
        raise TransientError(f"{len(names)} of {needed} NATS servers report: {'; '.join(away)}")


def check_report(report: Report) -> None:
    """SettingsError: the server loses what it has acknowledged, or does not take what the cluster sends."""
    check_info(report)
    config = (report.get("jetstream") or {}).get("config") or {}
    _expect(report, "jetstream", "enabled" if config else "disabled", "enabled", lambda found: found == "enabled")
    right = 'true: jetstream { sync_interval: "always" }'
    _expect(report, "sync_always", config.get("sync_always"), right, bool)


def check_info(info: Report) -> None:
    """SettingsError: the server is too old, or takes too small records. Every client hears that much of a server."""
    least = f"{'.'.join(str(part) for part in LEAST_VERSION)} or later"
    _expect(info, "version", info.get("version"), least, lambda found: _version(found) >= LEAST_VERSION)
    right = f"{MAX_PAYLOAD_BYTES}: max_payload: {MAX_PAYLOAD_BYTES}"
    _expect(info, "max_payload", info.get("max_payload"), right, lambda found: found == MAX_PAYLOAD_BYTES)


def _expect(report: Report, what: str, found: Any, right: str, is_right: Callable[[Any], bool]) -> None:
    if not is_right(found):
        name = report.get("server_name", "?")
        raise SettingsError(f"NATS server {name} has {what} = {found!r}; right would be {right}")


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
    size = group_size(report)
    return "" if size >= servers else f"{size} of {servers} servers are there"


def group_size(report: Report) -> int:
    """How many servers the group has that this one is in, whether they are there or not; 0: it does not know."""
    meta = (report.get("jetstream") or {}).get("meta") or {}
    return int(meta.get("cluster_size", 0))
