"""Slices of one buffer, collected into an Arrow column without a Python loop.

    data      ······topicA··xx·······topicBB··yyy···        one long buffer
    slices          (6, 6) (14, 2)   (23, 7) …              where each row's part begins, and how long it is
    column    topicAtopicBB…  with offsets 0 6 13 …

Two ways, chosen by the size of the slices: long ones become Arrow views into the buffer, which Arrow copies together;
short ones are picked byte by byte with numpy. Measured per row: 2 to 12 bytes 137 against 33 ns, 20 to 30 bytes 40
against 74, 100 to 1,000 bytes 158 against 3,719.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

#: Zeros to put behind the data, so that a window at its last byte stays inside.
PADDING: Final = bytes(64)
#: Arrow's offsets of binary columns are 32 bits.
MAX_DATA_BYTES: Final = 2**31 - 1
#: Up to this many bytes stand in a view itself.
_INLINE_BYTES: Final = 12
#: Slices shorter than this on average are picked byte by byte.
_SHORT_BYTES: Final = 16


def collect(data: Bytes, starts: Numbers, lengths: Numbers, kind: Any) -> Any:
    """The slices as an array of `kind`, which is binary or string.

    Requires: padded data of at most MAX_DATA_BYTES, slices inside it. That strings are UTF-8 is not checked.
    """
    rows = len(starts)
    if rows == 0:
        return pa.array([], kind)
    total = int(lengths.sum())
    first = int(lengths[0])
    if total == first * rows and bool((lengths == first).all()):
        return _contiguous(_equal(data, starts, first), lengths, kind)
    if total < _SHORT_BYTES * rows:
        return _contiguous(_picked(data, starts, lengths), lengths, kind)
    return _viewed(data, starts, lengths, kind)


def _contiguous(content: Bytes, lengths: Numbers, kind: Any) -> Any:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(lengths), buffers)


def _equal(data: Bytes, starts: Numbers, length: int) -> Bytes:
    if length == 0:
        return np.zeros(0, np.uint8)
    return sliding_window_view(data, length)[starts].reshape(-1)


def _picked(data: Bytes, starts: Numbers, lengths: Numbers) -> Bytes:
    before = np.cumsum(lengths) - lengths
    return data[np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))]


def _viewed(data: Bytes, starts: Numbers, lengths: Numbers, kind: Any) -> Any:
    """Arrow's view: length i32, then the bytes themselves if they fit, else a prefix, a buffer's number, an offset."""
    views = np.zeros((len(starts), 4), "<i4")
    views[:, 0] = lengths
    long = np.flatnonzero(lengths > _INLINE_BYTES)
    views[long, 1] = sliding_window_view(data, 4)[starts[long]].view("<i4")[:, 0]
    views[long, 3] = starts[long]
    short = np.flatnonzero(lengths <= _INLINE_BYTES)
    inline = sliding_window_view(data, _INLINE_BYTES)[starts[short]]
    inline[np.arange(_INLINE_BYTES) >= lengths[short, None]] = 0
    views[short, 1:] = inline.view("<i4")
    view_kind = pa.string_view() if kind == pa.string() else pa.binary_view()
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(view_kind, len(starts), buffers).cast(kind)
