"""What a client's core tells its shell. Pure."""

from typing import NamedTuple

from holdfast.client.errors import LostError, RefusedError
from holdfast.wire.packets import Connack, Publish, Suback, Unsuback


class ConnectionEnded(NamedTuple):
    """The connection cannot go on."""

    error: RefusedError | LostError


class MessageRefused(NamedTuple):
    """The broker does not take a message, and never will. It is completed."""

    error: RefusedError


Event = Connack | Publish | Suback | Unsuback | MessageRefused | ConnectionEnded
