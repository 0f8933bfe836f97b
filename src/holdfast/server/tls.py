"""TLS for listeners: certificates from files, checked when they are read, replaced while the listener runs.

It knows files and `ssl`, nothing of sockets or connections. A `TlsContext` is handed to asyncio once, and asks its
present inner context for each connection. So `reload` swaps everything at once (certificate, key, client CA) for
new connections, leaves old ones alone, and has nothing to undo when a file is bad.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from holdfast.model.errors import SettingsError


@dataclass(frozen=True)
class TlsFiles:
    """Where a listener's keys are, in PEM form."""

    #: The listener's name, for messages.
    listener: str
    #: The server's certificate, followed by the intermediate ones.
    certificate: Path
    key: Path
    #: Who signs the certificates of clients; without it clients are not asked for one.
    client_ca: Path | None = None
    #: Whether a client without a certificate is turned away; if not, it has to log in by other means.
    require_client_certificate: bool = False


class TlsContext(ssl.SSLContext):
    """A server's context whose files can be read again."""

    def __new__(cls, files: TlsFiles) -> Self:  # noqa: ARG004 - the base takes its protocol here
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, files: TlsFiles) -> None:
        self._files: Final = files
        self._present = load(files)

    def reload(self) -> None:
        """Read the files again, for new connections. If one is bad, all stays as it was and SettingsError says why."""
        self._present = load(self._files)

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """What the event loop calls for each connection."""
        return self._present.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def load(files: TlsFiles) -> ssl.SSLContext:
    """A context of these files; SettingsError names the file that is bad, and its problem."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # `load_cert_chain` does not say which of its two files is wrong, so each is tried alone first.
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files, "certificate", files.certificate)
    _read(files, "key", files.key)

    def no_passphrase() -> str:
        # Otherwise OpenSSL asks at the terminal, and the whole node waits.
        raise _bad(files, "key", files.key, "is encrypted; store it without a passphrase, readable by the broker only")

    try:
        context.load_cert_chain(files.certificate, files.key, no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"does not belong to the certificate {files.certificate}"
        else:
            problem = f"is no private key in PEM form ({_reason(error)})"
        raise _bad(files, "key", files.key, problem) from error
    if files.client_ca is not None:
        _trust(context, files, "client_ca", files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if files.require_client_certificate else ssl.CERT_OPTIONAL
    return context


def verified_subject(certificate: Mapping[str, Any] | None) -> str | None:
    """The subject's common name in what `ssl` tells of a peer's certificate; it tells of verified ones only."""
    if certificate:
        for names in certificate.get("subject", ()):
            for key, value in names:
                if key == "commonName":
                    return str(value)
    return None


def _trust(context: ssl.SSLContext, files: TlsFiles, setting: str, path: Path) -> None:
    _read(files, setting, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise _bad(files, setting, path, f"holds no certificate in PEM form ({_reason(error)})") from error


def _read(files: TlsFiles, setting: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise _bad(files, setting, path, f"cannot be read: {error.strerror}") from error


def _bad(files: TlsFiles, setting: str, path: Path, problem: str) -> SettingsError:
    return SettingsError(f"listener {files.listener}: {setting} {path} {problem}")


def _reason(error: ssl.SSLError) -> str:
    return error.reason or str(error)
