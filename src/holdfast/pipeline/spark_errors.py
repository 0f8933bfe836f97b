"""What Spark says when something fails, without the machinery around it."""

import re


def last_line(error: Exception) -> str:
    """What a worker said last, if it was a worker, and not the machinery around it."""
    said = [line for line in str(error).splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return said[-1] if said else (str(error).splitlines() or [type(error).__name__])[0]
