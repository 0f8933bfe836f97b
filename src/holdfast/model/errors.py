"""Error families. A family tells the caller what to do; the message tells a person what happened.

    HoldfastError
    ├── PeerError         the client broke the protocol or a limit    → CONNACK or DISCONNECT with `reason`
    ├── MisuseError       our own bug: a contract was not kept        → be loud, fix the code
    ├── TransientError    a retry may help                            → retry within bounds
    ├── PermanentError    a retry cannot help                         → report, go on without
    ├── PoisonedError     a sync failed, disk contents are unknown    → stop writing
    └── SettingsError     the operator asked for something impossible → only while starting

Drivers' own exceptions are translated inside their adapter. "Not enough bytes yet", an empty
queue and a lost compare-and-set are results, not errors.

A family may have members in modules that are not compiled (`DiskFullError`), and says so to the compiler. Without that,
compiled code that catches a family takes such a member for another type, and raises a TypeError in its place.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from holdfast.model.reasons import reason_name


@mypyc_attr(allow_interpreted_subclasses=True)
class HoldfastError(Exception):
    """Any error that Holdfast raises on purpose."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerError(HoldfastError):
    """The other side broke the protocol or a limit.

    `reason` is an MQTT 5 reason code that may stand in CONNACK or DISCONNECT. MQTT 3 clients
    get what their version has for it. `detail` is fit to be sent as a reason string: it never
    holds a secret.
    """

    def __init__(self, reason: int, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason: Final = reason
        self.detail: Final = detail

    def __str__(self) -> str:
        return f"{reason_name(self.reason)} (0x{self.reason:02X}): {self.detail}"


@mypyc_attr(allow_interpreted_subclasses=True)
class MisuseError(HoldfastError):
    """A caller inside Holdfast broke a contract."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TransientError(HoldfastError):
    """It failed now and may succeed later."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PermanentError(HoldfastError):
    """It failed and will fail again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PoisonedError(HoldfastError):
    """A sync failed: what is on disk is unknown, so nothing more is written."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SettingsError(HoldfastError):
    """A setting is wrong; the message says which, and what would be right."""
