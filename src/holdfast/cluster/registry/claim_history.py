"""The last claims of each client id, which show later which connection took over from which.

1. Each node keeps what it has applied since its start, for itself, in memory: no part of the state.
2. At most 16 claims of a client id, none older than a day, and 16,384 of all client ids together: then those of the
   client id go first that has claimed least lately. A claim is 57 bytes, and all of them take about 3 MB.
3. The last 256 takeovers of all client ids are kept beside that: claims that replaced a channel which was still there,
   and claims that were refused.
"""

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import Final

from holdfast.durable.state_machine.outcome import DecidedClaim, Outcome
from holdfast.durable.takeover.registry import ChannelVersion
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US

OF_ONE: Final = 16
OF_ALL: Final = 16_384
TAKEOVERS: Final = 256
KEPT_US: Final = 24 * 3600 * SECOND_US

#: When, connection, version (three parts), revision; the other channel: node, connection, and whether there is one.
_CLAIM: Final = Struct("<qQQIQQIQB")
_NONE, _THERE, _RELEASED = 0, 1, 2


@dataclass(frozen=True)
class PastClaim:
    """A claim as it is shown."""

    #: By record time, in µs.
    at_us: int
    node: int
    connection: int
    version: str
    accepted: bool
    revision: int
    #: The channel that it replaced, or that stood in its way, such as `connection 7 of node 2`; empty for none.
    other: str


class ClaimHistory:
    """See the rules above."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        #: By session id, the one with the newest claim last: its claims, one behind the other.
        self._claims: Final[dict[str, bytes]] = {}
        self._count = 0
        #: Session ids and claims, the newest last.
        self._takeovers: Final[deque[tuple[str, bytes]]] = deque(maxlen=TAKEOVERS)

    def __len__(self) -> int:
        return self._count

    def applied(self, outcome: Outcome) -> None:
        """A record with claims was applied here."""
        for claim in outcome.claims:
            known = self._claims.pop(claim.session_id, b"")
            kept = known[-(OF_ONE - 1) * _CLAIM.size :]
            self._count += 1 + (len(kept) - len(known)) // _CLAIM.size
            encoded = _encode(outcome.time_us, claim)
            self._claims[claim.session_id] = kept + encoded
            if claim.revision <= 0 or (claim.other is not None and not claim.other.released_us):
                self._takeovers.append((claim.session_id, encoded))
        while self._count > OF_ALL:
            self._count -= len(self._claims.pop(next(iter(self._claims)))) // _CLAIM.size

    def of(self, session_id: str) -> list[PastClaim]:
        """Those of a client id, the newest last."""
        since_us = self._clock.wall_us() - KEPT_US
        claims = [_decode(fields) for fields in _CLAIM.iter_unpack(self._claims.get(session_id, b""))]
        return [claim for claim in claims if claim.at_us >= since_us]

    def takeovers(self) -> list[tuple[str, PastClaim]]:
        """The last ones of all client ids, the newest last."""
        since_us = self._clock.wall_us() - KEPT_US
        found = [(session_id, _decode(_CLAIM.unpack(claim))) for session_id, claim in self._takeovers]
        return [(session_id, claim) for session_id, claim in found if claim.at_us >= since_us]

    def forget_old(self) -> None:
        """Drop the client ids whose newest claim is older than a day."""
        since_us = self._clock.wall_us() - KEPT_US
        while self._claims:
            session_id, known = next(iter(self._claims.items()))
            if _CLAIM.unpack_from(known, len(known) - _CLAIM.size)[0] >= since_us:
                return
            self._count -= len(known) // _CLAIM.size
            del self._claims[session_id]


def _encode(at_us: int, claim: DecidedClaim) -> bytes:
    other = claim.other
    if other is None:
        channel = (0, 0, _NONE)
    else:
        channel = (other.node, other.connection_id, _RELEASED if other.released_us else _THERE)
    return _CLAIM.pack(at_us, claim.connection_id, *claim.version, claim.revision, *channel)


def _decode(fields: tuple[int, ...]) -> PastClaim:
    at_us, connection, connected_ms, node, counter, revision, other_node, other_connection, kind = fields
    other = "" if kind == _NONE else f"connection {other_connection} of node {other_node}"
    if kind == _RELEASED:
        other += ", released"
    version = ChannelVersion(connected_ms, node, counter).encode()
    return PastClaim(at_us, node, connection, version, revision > 0, revision, other)
