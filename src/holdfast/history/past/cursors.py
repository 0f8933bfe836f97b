"""How far an answer has come, as text that the client gives back: a place, and where what was kept began then.

    q1-eyJwbGFjZSI6Wz…      "q1-", then base64 (URL alphabet, no padding) of JSON and its CRC-32

1. The next answer gives what the last one has not given. Messages that came meanwhile above a place that goes down do
   not shift it.
2. Retention may drop what was not given yet. The border of each shard in the cursor tells: that is an error that names
   the border that holds now, and never a shorter answer.
3. A cursor that was cut, mistyped or made up is refused.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Any, Final
from zlib import crc32

import msgspec

from holdfast.history.past.questions import dropped, wrong_value
from holdfast.history.past.time_scan import Place
from holdfast.history.reader.view import View

_PREFIX: Final = "q1-"
_CHECK_BYTES: Final = 4
_PARAMETER: Final = "cursor"


class TimeCursor(msgspec.Struct, frozen=True):
    """A place among the messages of all shards, and where each shard began when the first answer was made."""

    place: Place
    #: Shards by their first position that was kept: those of a zone have the same.
    borders: dict[int, list[int]]

    def check(self, view: View, from_us: int, to_us: int) -> None:
        """410 if retention has passed into [from, to), which is still to be read, since the first answer."""
        now = {shard: border_us for border_us, shards in borders_of(view).items() for shard in shards}
        passed = [
            now[shard]
            for border_us, shards in self.borders.items()
            for shard in shards
            if max(border_us, from_us) < min(now.get(shard, border_us), to_us)
        ]
        if passed:
            raise dropped(max(passed))


def borders_of(view: View) -> dict[int, list[int]]:
    """Where the oldest generation of each shard begins, and the shards that begin there."""
    first: dict[int, int] = {}
    for records in view.live.values():
        for record in records:
            for shard in record.shards:
                first[shard] = min(first.get(shard, record.start_us), record.start_us)
    found: dict[int, list[int]] = {}
    for shard, start_us in sorted(first.items()):
        found.setdefault(start_us, []).append(shard)
    return found


def encode_cursor(value: Any) -> str:
    """A cursor of any kind: what JSON can hold."""
    body = msgspec.json.encode(value)
    return _PREFIX + urlsafe_b64encode(body + crc32(body).to_bytes(_CHECK_BYTES, "little")).decode().rstrip("=")


def decode_cursor(text: str, kind: Any) -> Any:
    """What `encode_cursor` made of a value of this kind; 400 if it did not."""
    coded = text.removeprefix(_PREFIX)
    if coded == text:
        raise wrong_value(_PARAMETER, f"{text[:40]!r} is no cursor (at character 1); take the one of the last answer")
    try:
        data = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
        body, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
        if crc32(body).to_bytes(_CHECK_BYTES, "little") != check:
            raise ValueError("damaged")
        return msgspec.json.decode(body, type=kind)
    except (Base64Error, ValueError) as error:
        raise wrong_value(
            _PARAMETER,
            f"{text[:40]!r} is damaged or of another question (at character {len(_PREFIX) + 1}); "
            "take the one of the last answer",
        ) from error
