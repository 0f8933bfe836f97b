"""A Redis on loopback, and a cluster of three masters and three replicas."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from bench.ports import free_port
from bench.queues.processes import Server, until

PROGRAM = "redis-server"
PACKAGE = "redis-server"
MASTERS = 3


class RedisServer(Server):
    """Options are those of its configuration, as `name=value` with `_` for `-`."""

    def __init__(self, folder: Path | None = None, **options: object) -> None:
        super().__init__("redis", folder)
        self.port = free_port()
        chosen = {"save": "", "appendonly": "no", "bind": "127.0.0.1", "daemonize": "no", **options}
        self._options = {name.replace("_", "-"): str(value) for name, value in chosen.items()}

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> RedisServer:
        command = [PROGRAM, "--port", str(self.port), "--dir", str(self.folder)]
        for name, value in self._options.items():
            command += [f"--{name}", *([value] if name == "save" or " " not in value else value.split(" "))]
        self._launch(command)
        until(self._answers_or_ended, "Redis answers")
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError(f"Redis ended by itself: {self.lines()}")
        return self

    def _answers_or_ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None or self._answers()

    def option(self, name: str) -> str:
        return self._options[name.replace("_", "-")]

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.ask("PING").startswith(("+PONG", "-NOAUTH", "-WRONGPASS"))
        return False

    def ask(self, *words: str) -> str:
        """The first bytes of a reply, as they come: for set-up alone."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(encode_command(*words))
            return connection.recv(100_000).decode("utf-8", "replace")


def encode_command(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


class RedisCluster:
    """Member n and member n + 3 are a master and its replica, at first."""

    def __init__(self, folder: Path | None = None, *, replicas: bool = True, **options: object) -> None:
        count = MASTERS * (2 if replicas else 1)
        self.members = [
            RedisServer(
                folder,
                cluster_enabled="yes",
                cluster_node_timeout=1000,
                cluster_port=free_port(),
                repl_diskless_sync_delay=0,
                **options,
            )
            for _ in range(count)
        ]

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(member.url for member in self.members)

    def start(self) -> RedisCluster:
        for member in self.members:
            member.start()
        first = self.members[0]
        share = 16_384 // MASTERS
        for place, member in enumerate(self.members[:MASTERS]):
            last = 16_383 if place == MASTERS - 1 else (place + 1) * share - 1
            member.ask("CLUSTER", "ADDSLOTSRANGE", str(place * share), str(last))
            # Members that begin with the same epoch would have to settle it among themselves first.
            member.ask("CLUSTER", "SET-CONFIG-EPOCH", str(place + 1))
        for member in self.members[1:]:
            first.ask("CLUSTER", "MEET", "127.0.0.1", str(member.port), member.option("cluster_port"))
        until(lambda: all(self._knows_all(member) for member in self.members), "members know each other")
        for place, member in enumerate(self.members[MASTERS:]):
            master = self.members[place].ask("CLUSTER", "MYID").split("\r\n")[1]
            until(lambda m=member, i=master: m.ask("CLUSTER", "REPLICATE", i).startswith("+OK"), "a replica follows")  # type: ignore[misc]
        until(self.whole, "the cluster is whole")
        return self

    def _knows_all(self, member: RedisServer) -> bool:
        return f"cluster_known_nodes:{len(self.members)}\r" in member.ask("CLUSTER", "INFO")

    def whole(self) -> bool:
        """Whether every member says so, and every replica that runs has a master that it is in step with."""
        for member in self.members:
            if member.process is None:
                continue
            if "cluster_state:ok" not in member.ask("CLUSTER", "INFO"):
                return False
            role = member.ask("INFO", "replication")
            if "role:slave" in role and "master_link_status:up" not in role:
                return False
        return True

    def masters(self) -> list[RedisServer]:
        running = [member for member in self.members if member.process is not None]
        return [member for member in running if "role:master" in member.ask("INFO", "replication")]

    def close(self) -> None:
        for member in self.members:
            member.close()


def missing() -> bool:
    """Whether there is no Redis to start."""
    return not any(os.access(os.path.join(folder, PROGRAM), os.X_OK) for folder in os.get_exec_path())
