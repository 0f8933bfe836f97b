"""Options of a writer, as Spark passes them: texts by name, in any case.

    broker          mqtt://host:port, mqtts://…          qos, retain, contentType, messageExpiryS   where a row has none
    user            with passwordEnv or passwordFile     maxInflight      messages without an acknowledgement
    caFile          who may vouch for the broker         timeoutS         for an answer of the broker
    certFile        our certificate, with keyFile        retryForS        how long without progress before a task fails
    orderBy         streams: columns, or none            ledger           streams: a folder, or none
    summaryFile     what was published, a line of JSON for each job or batch

Everything is checked at once, before anything is published, and an option that does not exist is an error. A password
is no option: options stand in plans and logs. Its variable or its file is read by the workers.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from holdfast.client.options import BrokerAddress, parse_address
from holdfast.model.errors import SettingsError
from holdfast.model.protocol import MAX_U16, MAX_U32, QOS_1, QOS_2

BROKER: Final = "broker"
NONE: Final = "none"
_NAMES: Final = (
    BROKER,
    "user",
    "passwordEnv",
    "passwordFile",
    "caFile",
    "certFile",
    "keyFile",
    "qos",
    "retain",
    "contentType",
    "messageExpiryS",
    "maxInflight",
    "timeoutS",
    "retryForS",
    "orderBy",
    "ledger",
    "summaryFile",
)
#: Spark's own, which it passes on to every sink.
_FOREIGN: Final = ("__", "spark.")
_CHECKPOINT: Final = "checkpointlocation"
_SPARKS: Final = (_CHECKPOINT, "queryname")
#: A ledger lies in the checkpoint of its query, where nobody else writes.
_LEDGER: Final = "holdfast-ledger"
#: As many as the broker takes from a client unless its settings say otherwise.
_MAX_INFLIGHT: Final = 1000
_T = TypeVar("_T")


@dataclass(frozen=True)
class WriteOptions:
    """Valid, and fit to be sent to a worker: without a secret in it."""

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    password_env: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    qos: int = QOS_1
    retain: bool = False
    content_type: str | None = None
    message_expiry_s: int | None = None
    max_inflight: int = _MAX_INFLIGHT
    timeout_s: float = 30.0
    retry_for_s: float = 60.0
    #: None: not given. Empty: rows are taken in the order in which they come.
    order_by: tuple[str, ...] | None = None
    #: None: there is none.
    ledger: str | None = None
    summary_file: str | None = None

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


def is_writing(given: Mapping[str, str]) -> bool:
    """Whether options are those of a writer."""
    return any(key.lower() == BROKER for key in given)


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """SettingsError names the option that is wrong, and says what would be right."""
    texts = _by_name(given)

    def take(name: str, parse: Callable[[str], _T], default: _T) -> _T:
        try:
            return parse(texts[name]) if name in texts else default
        except ValueError as wrong:
            raise SettingsError(f"option {name}: {wrong}") from None

    address = take(BROKER, _address, None)
    if address is None:
        raise SettingsError("option broker: name the broker to publish to, as mqtt://host:port")
    user = texts.get("user", address.user)
    if "passwordEnv" in texts and "passwordFile" in texts:
        raise SettingsError("give either the option passwordEnv or passwordFile")
    if user is None and ("passwordEnv" in texts or "passwordFile" in texts):
        raise SettingsError("there is a password and no user; give the option user")
    if not address.secure and not {"caFile", "certFile", "keyFile"}.isdisjoint(texts):
        raise SettingsError("caFile, certFile and keyFile are for TLS; write mqtts:// in the option broker")
    if "keyFile" in texts and "certFile" not in texts:
        raise SettingsError("option keyFile: give certFile, the certificate that it belongs to, as well")
    return WriteOptions(
        host=address.host,
        port=address.port,
        tls=address.secure,
        user=user,
        password_env=texts.get("passwordEnv"),
        password_file=texts.get("passwordFile"),
        ca_file=texts.get("caFile"),
        cert_file=texts.get("certFile"),
        key_file=texts.get("keyFile"),
        qos=take("qos", _number(0, QOS_2), QOS_1),
        retain=take("retain", _yes, False),
        content_type=texts.get("contentType"),
        message_expiry_s=take("messageExpiryS", _number(0, MAX_U32), None),
        max_inflight=take("maxInflight", _number(1, MAX_U16), _MAX_INFLIGHT),
        timeout_s=take("timeoutS", _number(1, 3600), 30),
        retry_for_s=take("retryForS", _number(0, 86_400), 60),
        order_by=take("orderBy", _columns, None),
        ledger=_ledger(texts.get("ledger"), given),
        summary_file=texts.get("summaryFile"),
    )


def _by_name(given: Mapping[str, str]) -> dict[str, str]:
    known = {name.lower(): name for name in _NAMES}
    texts = {}
    for key, value in given.items():
        name = known.get(key.lower().replace("_", ""))
        if name is not None:
            texts[name] = value
        elif key.lower() == "password":
            raise SettingsError("a password is no option, where logs would show it; give passwordEnv or passwordFile")
        elif not key.startswith(_FOREIGN) and key.lower() not in _SPARKS:
            raise SettingsError(f"a writer has no option {key!r}; it has {', '.join(_NAMES)}")
    return texts


def _address(text: str) -> BrokerAddress:
    if not text.startswith(("mqtt://", "mqtts://")):
        # The text may hold a password, so it is not shown.
        raise ValueError("write mqtt://host:port, or mqtts://host:port for TLS")
    return parse_address(text, "passwordEnv or passwordFile")


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is no number from {least} to {most}")
        return int(text)

    return parse


def _yes(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _columns(text: str) -> tuple[str, ...]:
    if text.strip().lower() == NONE:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text!r} has an empty name in it; write columns with commas between them, or none")
    return names


def _ledger(text: str | None, given: Mapping[str, str]) -> str | None:
    """The folder of the ledger; without one of its own, in the checkpoint, if that is a folder of this machine."""
    if text is not None:
        return None if text.lower() == NONE else text
    checkpoint = next((value for key, value in given.items() if key.lower() == _CHECKPOINT), "")
    found = re.match(r"file:(?://)?(/.*)", checkpoint)
    path = found[1] if found else checkpoint
    return None if not path or "://" in path else str(Path(path).absolute() / _LEDGER)
