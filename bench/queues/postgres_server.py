"""A PostgreSQL on loopback."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from bench.ports import free_port
from bench.queues.processes import Server, until

PACKAGE = "postgresql"
_USER = "holdfast"


def program(name: str) -> str | None:
    """Its path. Debian keeps the programs apart, by version."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([*folders, *os.get_exec_path()]))


def missing() -> bool:
    """Whether there is no PostgreSQL to start."""
    return program("initdb") is None


class PostgresServer(Server):
    """Options are those of its configuration."""

    def __init__(self, folder: Path | None = None, **options: object) -> None:
        super().__init__("postgres", folder)
        self.port = free_port()
        chosen = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder, **options}
        self._options = {name: str(value) for name, value in chosen.items()}
        # It refuses to run as root.
        self._user = _other_user() if os.getuid() == 0 else None
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._initialise()

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def _initialise(self) -> None:
        initdb = program("initdb")
        assert initdb is not None
        command = [initdb, "-D", "data", "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, cwd=self.folder, user=self._user, check=True, capture_output=True)

    def set_options(self, **options: object) -> None:
        """For the next start."""
        self._options.update({name: str(value) for name, value in options.items()})

    def start(self) -> PostgresServer:
        postgres = program("postgres")
        assert postgres is not None
        command = [postgres, "-D", str(self.folder / "data"), "-p", str(self.port)]
        for name, value in self._options.items():
            command += ["-c", f"{name}={value}"]

        def up() -> bool:
            # The memory of one that was killed is let go by its last child, so the first try may fail.
            if self.process is None or self.process.poll() is not None:
                self._launch(command, self._user)
            return self._answers()

        until(up, f"PostgreSQL answers: {self.lines()}")
        return self

    def _answers(self) -> bool:
        """Whether it accepts connections; while it recovers it accepts none."""
        startup = b"\0\3\0\0user\0%b\0database\0postgres\0\0" % _USER.encode()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall((len(startup) + 4).to_bytes(4, "big") + startup)
            return connection.recv(1) == b"R"
        return False

    def lines(self) -> str:
        return super().lines() if (self.folder / "out.log").exists() else ""

    def _processes(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """With its children, all at once: one that sees that its parent is dead would still tell its client."""
        if self.process is not None:
            processes = self._processes()
            for end in (psutil.Process.suspend, psutil.Process.kill):
                for one in processes:
                    with suppress(psutil.NoSuchProcess):
                        end(one)
        super().kill()

    def pause(self) -> None:
        for one in self._processes():
            one.suspend()

    def resume(self) -> None:
        for one in self._processes():
            one.resume()


def _other_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
