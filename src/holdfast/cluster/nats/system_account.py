"""What the NATS servers report about themselves when they are asked in their system account.

A node without its own server does not reach the monitoring endpoints of embedded servers, which are on loopback.
Every server answers the same report to a client of the system account, whichever server that is connected to.

1. The user is the one of the nodes with a suffix (`system_user`), and has its password. Embedded servers know it.
2. Servers that do not let it in are not believed: whether they sync is told nowhere else but at `cluster.monitors`.
"""

import asyncio
from dataclasses import replace
from typing import Final

from holdfast.cluster.nats.connection import NatsConnection, NatsOptions, decode_answer
from holdfast.cluster.nats.monitor import check_report, group_size
from holdfast.cluster.nats.protocol import NO_RESPONDERS, NatsMessage
from holdfast.cluster.nats.server import system_user
from holdfast.cluster.nats.streams import COPIES
from holdfast.model.errors import SettingsError, TransientError

#: All servers answer it, each with its report.
_PING: Final = "$SYS.REQ.SERVER.PING.VARZ"


async def check_servers_by_request(options: NatsOptions, tasks: asyncio.TaskGroup) -> None:
    """Look at the reports of all servers that answer. `options` are those of a node; `tasks` is as for a connection.

    TransientError: no majority of them answers in time. SettingsError: one that answers is not fit for use, or they do
    not let this node ask.
    """
    system = replace(options, user=system_user(options.user), name=f"{options.name}-system")
    try:
        connection = await NatsConnection.open(system, tasks)
    except SettingsError as error:
        raise SettingsError(_advise(str(error), system.user)) from error
    try:
        await _check(connection)
    finally:
        await connection.close()


async def _check(connection: NatsConnection) -> None:
    options = connection.options
    heard: asyncio.Queue[NatsMessage] = asyncio.Queue()
    names: set[str] = set()
    expected = COPIES
    inbox = await connection.subscribe(heard.put_nowait)
    try:
        connection.publish(_PING, b"", inbox.subject)
        async with asyncio.timeout(options.timeout_s):
            while len(names) < expected:
                message = await heard.get()
                if message.status() == NO_RESPONDERS:
                    why = f"user {options.user!r} is not in the system account of the NATS servers"
                    raise SettingsError(_advise(why, options.user))
                report = decode_answer(message.data).get("data")
                if not isinstance(report, dict):
                    raise TransientError(f"a NATS server answered {_PING} without a report: {message.data[:80]!r}")
                check_report(report)
                names.add(str(report.get("server_name")))
                expected = max(expected, group_size(report))
    except TimeoutError:
        # One may be away: a node starts as long as the logs have a majority.
        if len(names) < expected // 2 + 1:
            raise TransientError(f"{len(names)} of {expected} NATS servers report to {options.user!r}") from None
    finally:
        inbox.close()


def _advise(why: str, user: str) -> str:
    return (
        f"cluster.monitors is not set, and {why}: whether the servers sync cannot be read. Write the monitoring "
        'endpoints of all servers, as in monitors = "10.0.0.1:8222, 10.0.0.2:8222, 10.0.0.3:8222" with '
        f'http: "10.0.0.1:8222" at the servers, or give {user!r} with the password of the nodes to their system '
        "account"
    )
