"""MQTT 5 properties of many messages at once.

The first property of every row is read in one step, then the second of every row that has one, and so on. So the number
of steps is the length of the longest list, for any number of rows.

    01 u8           payload format indicator     03 text         content type
    02 u32          message expiry interval      08 text         response topic
    26 text text    user property                09 binary       correlation data

That is all that is stored: topic aliases and subscription identifiers belong to one connection (`model/message.py`).
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import Bytes, Numbers

#: Never change: MQTT 5, 2.2.2.2.
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
USER_PROPERTY: Final = 0x26

_UNKNOWN: Final = 0
#: Bytes of a property up to the end of its fixed part: the id, and a number or the length of what follows.
_FIXED_BYTES: Final = np.zeros(256, np.int64)
_FIXED_BYTES[[0x01, 0x02]] = (2, 5)
_FIXED_BYTES[[CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY]] = 3
_HAS_LENGTH: Final = np.zeros(256, np.int64)
_HAS_LENGTH[[CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY]] = 1


class PropertySlices(NamedTuple):
    """Values of one property: the row, where it begins, how long it is. A row may occur several times, in order."""

    rows: Numbers
    starts: Numbers
    lengths: Numbers


class PropertyTable:
    """The properties of many rows in one buffer."""

    def __init__(self, data: Bytes, starts: Numbers, lengths: Numbers) -> None:
        """Requires: padded data. `damaged` is a row with malformed properties; -1 if there is none."""
        self.damaged = -1
        self._ids: Final[list[NDArray[np.uint8]]] = []
        self._found: Final[list[PropertySlices]] = []
        self._user_values: Final[list[PropertySlices]] = []
        self._walk(data, starts, starts + lengths)

    def _walk(self, data: Bytes, starts: Numbers, ends: Numbers) -> None:
        rows = np.flatnonzero(starts < ends)
        at = starts[rows]
        end = ends[rows]
        while len(rows):
            ids = data[at]
            begin = at + _FIXED_BYTES[ids]
            length = _u16(data, at + 1) * _HAS_LENGTH[ids]
            stop = begin + length
            user = ids == USER_PROPERTY
            value_begin = stop[user] + 2
            value_length = _u16(data, stop[user])
            stop[user] = value_begin + value_length
            bad = (_FIXED_BYTES[ids] == _UNKNOWN) | (stop > end)
            if bad.any():
                self.damaged = int(rows[bad.argmax()])
                return
            self._ids.append(ids)
            self._found.append(PropertySlices(rows, begin, length))
            self._user_values.append(PropertySlices(rows[user], value_begin, value_length))
            more = stop < end
            rows = rows[more]
            at = stop[more]
            end = end[more]

    def of(self, identifier: int) -> PropertySlices:
        """The values of a property, or the names of user properties, ordered by row."""
        steps = zip(self._ids, self._found, strict=True)
        return _by_row([PropertySlices(*(part[ids == identifier] for part in found)) for ids, found in steps])

    def user_values(self) -> PropertySlices:
        """The values of user properties, in the order in which `of(USER_PROPERTY)` has their names."""
        return _by_row(self._user_values)


def _u16(data: Bytes, at: Numbers) -> Numbers:
    """Numbers of two bytes, big-endian. Beyond the data they are undefined: the caller checks the length."""
    safe = np.minimum(at, len(data) - 2)
    high: Numbers = data[safe].astype(np.int64)
    low: Numbers = data[safe + 1].astype(np.int64)
    return high << 8 | low


def _by_row(steps: list[PropertySlices]) -> PropertySlices:
    if not steps:
        return PropertySlices(*[np.zeros(0, np.int64)] * 3)
    joined = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return PropertySlices(*(part[order] for part in joined))
