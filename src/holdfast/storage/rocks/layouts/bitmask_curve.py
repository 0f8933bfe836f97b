"""Where the bits of topic and time stand in a key of the `bitmask` layouts, and what a filter asks of them.

A topic is cut into N tokens: its first levels, and what is deeper joined into the last. Each token is hashed to a few
bits; a missing level has its own mark. The bits of all tokens and of the time are then put in some order:

    bitmask           levels 0…N-1, one after the other; time
    bitmask-zorder    the highest bit of every level, then the next …; time
    interleaved       a bit of the topic (levels one after the other), a bit of the time, in turn

A filter becomes a mask of the bits that it fixes, and a query with their values. A code can match if
`code & mask == query`. Which bits the mask holds depends on the order; the rules do not.
"""

from typing import Final

from holdfast.topics.filters import ONE, REST
from holdfast.topics.learned_ids import FINGERPRINT_BITS, fingerprint
from holdfast.topics.names import SEPARATOR

#: Microseconds since the epoch began: 71 minutes. Never change.
TIME_BITS: Final = 32
_TIME: Final = -1
#: In the place of a level that is missing. No joined levels can be this: topics do not contain `+`. Never change.
_MISSING: Final = b"+"

#: A bit of a source: (level or _TIME, number of the bit from its lowest).
_Bit = tuple[int, int]


class Curve:
    """An order of bits."""

    def __init__(self, order: list[_Bit], levels: int, bits: int) -> None:
        self._levels: Final = levels
        self._bits: Final = bits
        self.width_bytes: Final = (len(order) + 7) // 8
        places: dict[int, list[int]] = {source: [0] * TIME_BITS for source in (*range(levels), _TIME)}
        for i, (source, bit) in enumerate(reversed(order)):
            places[source][bit] = i
        #: By source and byte: where the bits of each value of that byte go.
        self._tables: Final = {source: _tables(found) for source, found in places.items()}
        self._time_0, self._time_1, self._time_2, self._time_3 = self._tables[_TIME]

    def topic_bits(self, topic: bytes) -> int:
        code = 0
        for level, token in enumerate(self._tokens(topic.split(SEPARATOR))):
            code |= self._scatter(level, self._hash(token))
        return code

    def time_bits(self, offset_us: int) -> int:
        return (
            self._time_0[offset_us & 255]
            | self._time_1[offset_us >> 8 & 255]
            | self._time_2[offset_us >> 16 & 255]
            | self._time_3[offset_us >> 24]
        )

    def query(self, levels: tuple[bytes, ...]) -> tuple[int, int]:
        """What a filter asks for: (query, mask)."""
        query = mask = 0
        whole = (1 << self._bits) - 1
        rest = levels[-1] == REST
        wanted = levels[:-1] if rest else levels
        tokens: list[bytes] = self._tokens(list(wanted))
        for level, token in enumerate(tokens):
            if rest and level >= min(len(wanted), self._levels - 1):
                break  # `#` says nothing about the levels from here on, nor about a joined one
            if token == ONE and level < len(wanted):
                continue
            if level == self._levels - 1 and ONE in wanted[level:]:
                continue
            mask |= self._scatter(level, whole)
            query |= self._scatter(level, self._hash(token))
        return query, mask

    def _tokens(self, levels: list[bytes]) -> list[bytes]:
        last = self._levels - 1
        tokens = levels[:last]
        tokens.extend([_MISSING] * (last - len(tokens)))
        tokens.append(SEPARATOR.join(levels[last:]) if len(levels) > last else _MISSING)
        return tokens

    def _hash(self, token: bytes) -> int:
        return int.from_bytes(fingerprint(token), "big") >> (FINGERPRINT_BITS - self._bits)

    def _scatter(self, source: int, value: int) -> int:
        code = 0
        for table in self._tables[source]:
            code |= table[value & 255]
            value >>= 8
        return code


def _tables(places: list[int]) -> list[list[int]]:
    tables: list[list[int]] = []
    for begin in range(0, TIME_BITS, 8):
        table = [0]
        for place in places[begin : begin + 8]:
            table += [code | 1 << place for code in table]
        tables.append(table)
    return tables


def _topic_in_order(levels: int, bits: int) -> list[_Bit]:
    return [(level, bit) for level in range(levels) for bit in reversed(range(bits))]


_TIME_IN_ORDER: Final[list[_Bit]] = [(_TIME, bit) for bit in reversed(range(TIME_BITS))]


def shifted(levels: int, bits: int) -> Curve:
    """Level after level, then the time."""
    return Curve(_topic_in_order(levels, bits) + _TIME_IN_ORDER, levels, bits)


def z_order(levels: int, bits: int) -> Curve:
    """The levels on a Z-order curve, then the time."""
    topic = [(level, bit) for bit in reversed(range(bits)) for level in range(levels)]
    return Curve(topic + _TIME_IN_ORDER, levels, bits)


def interleaved(levels: int, bits: int) -> Curve:
    """Topic and time on a Z-order curve; the longer of them ends alone."""
    topic = _topic_in_order(levels, bits)
    both = min(len(topic), TIME_BITS)
    paired = [bit for pair in zip(topic[:both], _TIME_IN_ORDER[:both], strict=True) for bit in pair]
    return Curve(paired + topic[both:] + _TIME_IN_ORDER[both:], levels, bits)


def next_match(code: int, query: int, mask: int, width: int) -> int:
    """The smallest code from `code` on that can match, or -1. `width` is the number of bits of a code."""
    wrong = (code ^ query) & mask
    if not wrong:
        return code
    place = wrong.bit_length() - 1
    if code >> place & 1:
        # Too large there: the next larger number with a free bit above it turned from 0 to 1.
        free = ~(code | mask) & ((1 << width) - 1) & -(1 << place)
        if not free:
            return -1
        place = (free & -free).bit_length() - 1
        code |= 1 << place
        return code & -(1 << place) | query & ((1 << place) - 1)
    # Too small there: the right bits from there on, and free bits at 0.
    return code & -(1 << place) | query & ((2 << place) - 1)
