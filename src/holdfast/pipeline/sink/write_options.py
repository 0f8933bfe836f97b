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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.client.options import BrokerAddress, parse_address
from holdfast.model.errors import SettingsError
from holdfast.model.protocol import MAX_U16, MAX_U32, QOS_1, QOS_2
from holdfast.pipeline.spark.option_texts import (
    OptionTable,
    name_options,
    parse_boolean,
    parse_options,
    strip_file_scheme,
)

BROKER: Final = "broker"
NONE: Final = "none"
#: Spark's own, which it passes on to every sink.
_CHECKPOINT: Final = "checkpointlocation"
_SPARKS: Final = (_CHECKPOINT, "queryname")
#: A ledger lies in the checkpoint of its query, where no other query writes.
_LEDGER: Final = "holdfast-ledger"
#: As many as the broker takes from a client unless its settings say otherwise.
_MAX_INFLIGHT: Final = 1000


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
    if any(key.lower() == "password" for key in given):
        raise SettingsError("a password is no option, where logs would show it; give passwordEnv or passwordFile")
    texts = name_options(given, _OPTIONS, "a writer has no option {}; it has {}", _SPARKS)
    if BROKER not in texts:
        raise SettingsError("option broker: name the broker to publish to, as mqtt://host:port")
    fields = parse_options(texts, _OPTIONS)
    address: BrokerAddress = fields.pop(BROKER)
    fields.setdefault("user", address.user)
    if "passwordEnv" in texts and "passwordFile" in texts:
        raise SettingsError("give either the option passwordEnv or passwordFile")
    if fields["user"] is None and ("passwordEnv" in texts or "passwordFile" in texts):
        raise SettingsError("there is a password and no user; give the option user")
    if not address.secure and not {"caFile", "certFile", "keyFile"}.isdisjoint(texts):
        raise SettingsError("caFile, certFile and keyFile are for TLS; write mqtts:// in the option broker")
    if "keyFile" in texts and "certFile" not in texts:
        raise SettingsError("option keyFile: give certFile, the certificate that it belongs to, as well")
    fields["ledger"] = _ledger(texts.get("ledger"), given)
    return WriteOptions(address.host, address.port, address.secure, **fields)


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


def _columns(text: str) -> tuple[str, ...]:
    if text.strip().lower() == NONE:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"{text!r} has an empty name in it; write columns with commas between them, or none")
    return names


def _ledger(text: str | None, given: Mapping[str, str]) -> str | None:
    """The folder of the ledger; where none is named, in the checkpoint, if that is a folder of this machine."""
    if text is not None:
        return None if text.lower() == NONE else text
    checkpoint = next((value for key, value in given.items() if key.lower() == _CHECKPOINT), "")
    path = strip_file_scheme(checkpoint)
    return None if not path or "://" in path else str(Path(path).absolute() / _LEDGER)


_OPTIONS: Final[OptionTable] = {
    BROKER: (BROKER, _address),
    "user": ("user", str),
    "passwordEnv": ("password_env", str),
    "passwordFile": ("password_file", str),
    "caFile": ("ca_file", str),
    "certFile": ("cert_file", str),
    "keyFile": ("key_file", str),
    "qos": ("qos", _number(0, QOS_2)),
    "retain": ("retain", parse_boolean),
    "contentType": ("content_type", str),
    "messageExpiryS": ("message_expiry_s", _number(0, MAX_U32)),
    "maxInflight": ("max_inflight", _number(1, MAX_U16)),
    "timeoutS": ("timeout_s", _number(1, 3600)),
    "retryForS": ("retry_for_s", _number(0, 86_400)),
    "orderBy": ("order_by", _columns),
    "ledger": ("ledger", str),
    "summaryFile": ("summary_file", str),
}
#: All options, written with underscores.
OPTION_FIELDS: Final = tuple(field for field, _parse in _OPTIONS.values())
