"""How a connection to a broker fails, the text that says why, and what a client's core tells its shell. Pure.

RefusedError   the broker says no, or has announced that it would      a repetition cannot help
LostError      there is no broker, or it does not serve now            a repetition may help
"""

from typing import Final, NamedTuple

from holdfast.model import reasons
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.protocol import CONNACK, DISCONNECT, SUBACK, V5
from holdfast.wire.packets import Ack, Connack, Disconnect, Publish, Suback, Unsuback


class RefusedError(PermanentError):
    """The broker said no; the text gives its reason."""


class LostError(TransientError):
    """There is no connection, or no longer one."""


#: Reasons that may be gone after a while.
TEMPORARY_REASONS: Final = frozenset(
    (
        reasons.NORMAL_DISCONNECTION,
        reasons.SERVER_UNAVAILABLE,
        reasons.SERVER_BUSY,
        reasons.SERVER_SHUTTING_DOWN,
        reasons.KEEP_ALIVE_TIMEOUT,
        reasons.MESSAGE_RATE_TOO_HIGH,
        reasons.QUOTA_EXCEEDED,
        reasons.ADMINISTRATIVE_ACTION,
        reasons.USE_ANOTHER_SERVER,
        reasons.CONNECTION_RATE_EXCEEDED,
        reasons.MAXIMUM_CONNECT_TIME,
    )
)
#: The six return codes of MQTT 3.
_CONNACK_V3: Final = (
    "accepted",
    "it does not speak this version of MQTT",
    "it does not accept the client id",
    "it is not available now",
    "bad user name or password",
    "not authorized",
)


def describe_reason(packet: Connack | Ack | Suback | Unsuback | Disconnect, reason: int, kind: int = SUBACK) -> str:
    """The name of a reason code, and the broker's reason string if there is one."""
    text = f"{reasons.reason_name(reason, kind)} (0x{reason:02X})"
    detail = packet.properties.reason_string
    return f"{text}: {detail}" if detail else text


def connect_refusal(connack: Connack, version: int) -> RefusedError | LostError:
    """The error for a CONNACK that refuses."""
    if version == V5:
        text = describe_reason(connack, connack.reason, CONNACK)
        temporary = connack.reason in TEMPORARY_REASONS
    else:
        text = f"{_CONNACK_V3[connack.reason]} (return code {connack.reason})"
        temporary = connack.reason == reasons.V3_SERVER_UNAVAILABLE
    text = f"the broker refused the connection: {text}"
    return LostError(text) if temporary else RefusedError(text)


def publish_refusal(topic: str, ack: Ack) -> RefusedError | LostError:
    """The error for a PUBACK or PUBREC that refuses."""
    text = f"the broker refused the message to {topic}: {describe_reason(ack, ack.reason, ack.kind)}"
    return LostError(text) if ack.reason in TEMPORARY_REASONS else RefusedError(text)


def disconnect_error(packet: Disconnect) -> RefusedError | LostError:
    """The error for a DISCONNECT of the broker."""
    text = f"the broker ended the connection: {describe_reason(packet, packet.reason, DISCONNECT)}"
    if packet.reason == reasons.SESSION_TAKEN_OVER:
        return RefusedError(f"{text}; another client has connected with this client id")
    return LostError(text) if packet.reason in TEMPORARY_REASONS else RefusedError(text)


class ConnectionEnded(NamedTuple):
    """The connection cannot go on."""

    error: RefusedError | LostError


class MessageRefused(NamedTuple):
    """The broker does not take a message, and never will. It is completed."""

    error: RefusedError


Event = Connack | Publish | Suback | Unsuback | MessageRefused | ConnectionEnded
