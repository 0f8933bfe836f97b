"""The last claims of each client id, for whoever asks later which connection took over from which.

1. Each node keeps what it has applied since its start, for itself, in memory: no part of the state.
2. At most 16 claims of a client id, none older than a day, and 16,384 of all client ids together: then those of the
   client id go first that has claimed least lately. That is some 4 MB.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from holdfast.durable.state_machine.outcome import DecidedClaim, Outcome
from holdfast.durable.takeover.registry import ChannelVersion
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.rows import RegistrationRow

OF_ONE: Final = 16
OF_ALL: Final = 16_384
KEPT_US: Final = 24 * 3600 * SECOND_US


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
        #: By session id, the one with the newest claim last.
        self._claims: Final[dict[str, deque[tuple[int, DecidedClaim]]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def applied(self, outcome: Outcome) -> None:
        """A record with claims was applied here."""
        for claim in outcome.claims:
            known = self._claims.pop(claim.session_id, None)
            if known is None:
                known = deque(maxlen=OF_ONE)
            self._count += len(known) < OF_ONE
            known.append((outcome.time_us, claim))
            self._claims[claim.session_id] = known
        while self._count > OF_ALL:
            self._count -= len(self._claims.pop(next(iter(self._claims))))

    def of(self, session_id: str) -> list[PastClaim]:
        """Those of a client id, the newest last."""
        since_us = self._clock.wall_us() - KEPT_US
        return [_past(at_us, claim) for at_us, claim in self._claims.get(session_id, ()) if at_us >= since_us]

    def forget_old(self) -> None:
        """Drop the client ids whose newest claim is older than a day."""
        since_us = self._clock.wall_us() - KEPT_US
        while self._claims:
            session_id, known = next(iter(self._claims.items()))
            if known[-1][0] >= since_us:
                return
            self._count -= len(known)
            del self._claims[session_id]


def _past(at_us: int, claim: DecidedClaim) -> PastClaim:
    version = ChannelVersion(*claim.version).encode()
    other = _describe(claim.other)
    return PastClaim(at_us, claim.version[1], claim.connection_id, version, claim.revision > 0, claim.revision, other)


def _describe(row: RegistrationRow | None) -> str:
    if row is None:
        return ""
    return f"connection {row.connection_id} of node {row.node}{', released' if row.released_us else ''}"
