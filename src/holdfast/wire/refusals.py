"""What can go wrong between a client of ours and a broker, in words."""

from typing import Final

from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.protocol import CONNACK, SUBACK, V5
from holdfast.model.reasons import reason_name
from holdfast.wire.packets import Ack, Connack, Disconnect, Suback


class RefusedError(PermanentError):
    """The broker said no; the message tells its reason."""


class LostError(TransientError):
    """There is no broker, or no longer one."""


#: The six return codes of MQTT 3.
_CONNACK_V3: Final = (
    "accepted",
    "it does not speak this version of MQTT",
    "it does not accept the client id",
    "it is not available now",
    "bad user name or password",
    "not authorized",
)


def in_words(packet: Connack | Ack | Suback | Disconnect, reason: int, kind: int = SUBACK) -> str:
    """A reason by its name, with what the broker added to it."""
    words = f"{reason_name(reason, kind)} (0x{reason:02X})"
    detail = packet.properties.reason_string
    return f"{words}: {detail}" if detail else words


def connect_refusal(connack: Connack, version: int) -> RefusedError:
    """The error for a CONNACK that refuses."""
    if version == V5:
        words = in_words(connack, connack.reason, CONNACK)
    else:
        words = f"{_CONNACK_V3[connack.reason]} (return code {connack.reason})"
    return RefusedError(f"the broker refused the connection: {words}")
