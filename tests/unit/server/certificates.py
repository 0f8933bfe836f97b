"""An authority for tests, and the files and contexts that it signs."""

import ssl
from pathlib import Path

import trustme


class Authority:
    """Signs for servers called localhost and for clients of any name."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

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
        return context
