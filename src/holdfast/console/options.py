"""What the console process is told at its start: addresses, files and folders, already checked by the node's rules."""

from pathlib import Path

import msgspec


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The section `console` of the settings, and where broker, history and data are."""

    host: str = "127.0.0.1"
    port: int = 18083
    user_file: Path | None = None
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    allowed_hosts: tuple[str, ...] = ()
    open_metrics: bool = False
    #: Version of this Holdfast, for people.
    version: str = ""
    #: The data folder of the broker; None if it stores nothing.
    data_folder: Path | None = None
    #: Where charts, alarms, audit and one-time links are kept.
    state_folder: Path
    #: The control socket; None looks for it in the lock file of the data folder.
    control_socket: Path | None = None
    #: Whether the console runs without a broker, on a folder of a stopped one: then nothing can be changed.
    read_only: bool = False

    @property
    def uses_tls(self) -> bool:
        return self.certificate is not None

    @property
    def secure_cookies(self) -> bool:
        """Whether browsers reach the console by HTTPS."""
        return self.uses_tls or self.behind_proxy
