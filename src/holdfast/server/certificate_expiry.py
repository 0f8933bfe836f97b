"""When a certificate ends. The standard library reads that of a peer only, and ours has to be watched as well.

Certificate ▸ TBSCertificate ▸ [version] serial signature issuer validity(notBefore, notAfter) …     DER, RFC 5280
"""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
# Tags of DER.
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
#: Bit of a length that says that the length has several bytes.
_LONG: Final = 0x80


class _Element(NamedTuple):
    tag: int
    content: bytes
    rest: bytes


def expiry_of(certificate: Path) -> float:
    """Unix time at which the first certificate of a PEM file ends: the server's own. ValueError if it has none."""
    try:
        text = certificate.read_text(errors="replace")
    except OSError as error:
        raise ValueError(f"{certificate} cannot be read: {error.strerror}") from error
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin < 0 or end < begin:
        raise ValueError(f"{certificate} holds no certificate in PEM form")
    return _not_after(ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]))


def _not_after(data: bytes) -> float:
    certificate = _read(data, _SEQUENCE)
    fields = _read(certificate.content, _SEQUENCE).content
    if fields[:1] == bytes([_VERSION]):
        fields = _read(fields).rest
    for _field in ("serial", "signature", "issuer"):
        fields = _read(fields).rest
    validity = _read(fields, _SEQUENCE).content
    return _time(_read(_read(validity).rest))


def _read(data: bytes, tag: int | None = None) -> _Element:
    if len(data) < 2 or (tag is not None and data[0] != tag):
        raise ValueError("the certificate is not in DER form")
    length, start = data[1], 2
    if length & _LONG:
        size = length & ~_LONG
        start += size
        length = int.from_bytes(data[2:start], "big")
    return _Element(data[0], data[start : start + length], data[start + length :])


def _time(element: _Element) -> float:
    text = element.content.decode("ascii", "replace")
    if element.tag == _UTC_TIME:  # two digits of the year: up to 49 they are of this century
        text = ("20" if text[:2] < "50" else "19") + text
    elif element.tag != _GENERALIZED_TIME:
        raise ValueError("the certificate has no time at which it ends")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
