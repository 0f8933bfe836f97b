"""TLS for listeners: certificates from files, checked when they are read, replaced while the listener runs.

It knows files and `ssl`, nothing of sockets or connections. asyncio gets a `ConnectionTls` for each connection, which
uses the present context of the listener's `TlsContext`. So `reload` replaces everything at once (certificate, key,
client CA, revocation lists) for new connections, leaves old ones alone, and has nothing to undo when a file is bad.
Session tickets of the old context are refused, so that a revoked client cannot resume with one.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from holdfast.model.errors import SettingsError
from holdfast.server.certificate_expiry import expiry_of
from holdfast.server.listener_spec import ListenerSpec


class HandshakeObject(ssl.SSLObject):
    """The server's side of one connection, which sends the client an alert if its handshake fails.

    The event loop closes the transport as soon as a handshake fails, and drops the alert that OpenSSL has written: a
    client whose certificate is refused would see a reset, with TLS 1.3 after its own handshake succeeded. So the
    failure is held back until the loop has sent the alert. It is raised with the client's next bytes; the end of its
    stream and the deadline of the handshake end the connection as well.
    """

    outgoing: ssl.MemoryBIO
    failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self.failure is not None:
            raise self.failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            if not self.outgoing.pending:
                raise
            self.failure = error
            raise ssl.SSLWantReadError from error


class TlsContext:
    """A server's context whose files can be read again."""

    def __init__(self, spec: ListenerSpec) -> None:
        self._spec: Final = spec
        self.present = load(spec)
        #: Unix time at which the certificate in use ends; 0 if it does not say.
        self.expires_s = _expiry(spec)

    def reload(self) -> None:
        """Read the files again, for new connections. If one is bad, all stays as it was and SettingsError says why."""
        self.present = load(self._spec)
        self.expires_s = _expiry(self._spec)


class ConnectionTls(ssl.SSLContext):
    """The context of one connection, which keeps the reason of a failed handshake."""

    def __new__(cls, context: TlsContext) -> Self:  # noqa: ARG004 - the base takes its protocol here
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, context: TlsContext) -> None:
        self._present: Final = context.present
        self._made: ssl.SSLObject | None = None

    @property
    def failure(self) -> ssl.SSLError | None:
        """The failure that was held back until the alert was sent."""
        return self._made.failure if isinstance(self._made, HandshakeObject) else None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """What the event loop calls."""
        made = self._made = self._present.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        if isinstance(made, HandshakeObject):
            made.outgoing = outgoing
        return made


def describe_failure(error: OSError) -> str:
    """Why a handshake failed, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _reason(error)
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "the client closed the connection"
    return str(error)


def load(spec: ListenerSpec) -> ssl.SSLContext:
    """A context from the files of a listener; SettingsError names the bad file and its problem."""
    certificate, key = spec.certificate, spec.key
    assert certificate is not None
    assert key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslobject_class = HandshakeObject
    # `load_cert_chain` does not say which of its two files is wrong, so each is read alone first.
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), spec, "certificate", certificate)
    _read(spec, "key", key)

    def no_passphrase() -> str:
        # Without it OpenSSL would ask at the terminal, and the whole node would wait.
        raise _bad(spec, "key", key, "is encrypted; store it without a passphrase, readable by the broker only")

    try:
        context.load_cert_chain(certificate, key, no_passphrase)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"does not belong to the certificate {certificate}"
        else:
            problem = f"is no private key in PEM form ({_reason(error)})"
        raise _bad(spec, "key", key, problem) from error
    if spec.client_ca is not None:
        _trust(context, spec, "client_ca", spec.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if spec.require_client_certificate else ssl.CERT_OPTIONAL
    if spec.crl is not None:
        before = context.cert_store_stats()["crl"]
        _trust(context, spec, "crl", spec.crl, "revocation list")
        if context.cert_store_stats()["crl"] == before:
            raise _bad(spec, "crl", spec.crl, "holds no revocation list in PEM form")
        # The client's own certificate: lists of every authority up to the root are rarely at hand.
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _expiry(spec: ListenerSpec) -> float:
    assert spec.certificate is not None
    try:
        return expiry_of(spec.certificate)
    except ValueError:
        return 0.0


def verified_subject(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name in a peer's certificate. `ssl` gives the content of verified ones only."""
    if certificate:
        for names in certificate.get("subject", ()):
            for key, value in names:
                if key == "commonName":
                    return str(value)
    return None


def _trust(context: ssl.SSLContext, spec: ListenerSpec, setting: str, path: Path, what: str = "certificate") -> None:
    _read(spec, setting, path)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise _bad(spec, setting, path, f"holds no {what} in PEM form ({_reason(error)})") from error


def _read(spec: ListenerSpec, setting: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise _bad(spec, setting, path, f"cannot be read: {error.strerror}") from error


def _bad(spec: ListenerSpec, setting: str, path: Path, problem: str) -> SettingsError:
    return SettingsError(f"listener {spec.name}: {setting} {path} {problem}")


def _reason(error: ssl.SSLError) -> str:
    return error.reason or str(error)
