"""Passwords inside addresses, which must not be shown: `redis://user:***@host`."""

import re
from typing import Final

#: Between `user:` and the last `@`, up to a blank or the next address of a list: a password may hold any other sign.
_IN_ADDRESS: Final = re.compile(r"(?<=://)([^/\s:@]*):((?!,[\w+]+://)\S)*@")
_IN_QUERY: Final = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&#\s]*", re.IGNORECASE)


def hide_passwords(text: str) -> str:
    """`text` with `***` in the place of every password in an address."""
    return _IN_QUERY.sub(r"\1***", _IN_ADDRESS.sub(r"\1:***@", text))
