"""When certificates end."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from holdfast.server.certificate_expiry import expiry_of


@pytest.mark.parametrize("year", [2031, 2049, 2051, 9999])
def test_the_end_of_the_first_certificate_is_found(tmp_path: Path, year: int) -> None:
    ends = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
    pair = trustme.CA().issue_cert("localhost", not_after=ends)
    path = tmp_path / "chain.pem"
    path.write_bytes(b"a comment\n" + b"".join(blob.bytes() for blob in pair.cert_chain_pems))
    assert expiry_of(path) == ends.timestamp()
    assert x509.load_pem_x509_certificate(pair.cert_chain_pems[0].bytes()).not_valid_after_utc == ends


@pytest.mark.parametrize(
    "content",
    [
        "",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----END CERTIFICATE----- -----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_certificate_is_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wrong.pem"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"certificate|DER|PEM"):
        expiry_of(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        expiry_of(tmp_path / "none.pem")
