"""What Spark says when it fails, in one line."""

import re
from typing import Final

from holdfast.model.errors import HoldfastError, PermanentError, TransientError

_PERMANENT: Final = re.compile(r"(?:[\w.]+\.)?(?:PermanentError|SettingsError): (.*)")


def last_line(error: Exception) -> str:
    """What a worker said last, if it was a worker, and not the machinery around it."""
    said = [line for line in str(error).splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return said[-1] if said else (str(error).splitlines() or [type(error).__name__])[0]


def translated(error: Exception, where: str) -> HoldfastError:
    """As one of ours: what a worker of ours said that no retry helps stays so."""
    said = last_line(error)
    found = _PERMANENT.fullmatch(said)
    return PermanentError(f"{where}: {found[1]}") if found else TransientError(f"{where}: {said}")
