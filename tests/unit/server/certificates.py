"""An authority for tests, and the files and contexts that it signs."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key


class Authority:
    """Signs for servers called localhost and for clients of any name."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(self.file))
        self._serials: dict[str, int] = {}

    def server_files(self, owner: str) -> dict[str, Path]:
        """Certificate and key of a server; `owner` stands in the subject."""
        pair = self._ca.issue_cert("localhost", "127.0.0.1", "::1", common_name=owner)
        certificate, key = self._folder / f"{owner}.pem", self._folder / f"{owner}.key"
        with certificate.open("wb") as file:
            for blob in pair.cert_chain_pems:
                file.write(blob.bytes())
        pair.private_key_pem.write_to_path(str(key))
        return {"certificate": certificate, "key": key}

    def client(self, name: str | None = None, *, signed_by: "Authority | None" = None) -> ssl.SSLContext:
        """A client that trusts this authority, with a certificate if it has a name."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        if name is not None:
            pair = (signed_by or self)._ca.issue_cert(f"{name}@example.org", common_name=name)
            pair.configure_cert(context)
            own = x509.load_pem_x509_certificate(pair.cert_chain_pems[0].bytes())
            (signed_by or self)._serials[name] = own.serial_number
        return context

    def revoke(self, path: Path, *names: str, outdated: bool = False) -> Path:
        """Write a revocation list with the certificates that clients of these names were given last."""
        issuer = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        key = load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        now = datetime.now(UTC)
        made = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject).last_update(now - timedelta(days=9))
        made = made.next_update(now + timedelta(days=-1 if outdated else 1))
        for name in names:
            entry = x509.RevokedCertificateBuilder().serial_number(self._serials[name]).revocation_date(now).build()
            made = made.add_revoked_certificate(entry)
        path.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
        return path
