"""A channel connects: the decisions between CONNECT and CONNACK when its client id may be in use.

This is a machine without I/O. Its caller hands in what happened and carries out the actions that come back, in
order. Nothing here waits, sends, stores, or knows what a session contains.

    state       event                                    actions                        next        path
    ──────────  ───────────────────────────────────────  ─────────────────────────────  ──────────  ──────────────
    NEW         start: local view has a newer one        Refuse 0x89                    REFUSED     HAPPY FAIL
    NEW         start: local view has an older one       Begin                          BEGINNING
    NEW         start: local view has no channel         Commit                         COMMITTING
    BEGINNING   began                                    Commit                         COMMITTING
    COMMITTING  committed: Committed                     End old, Open                  OPENING     HAPPY ENDING
    COMMITTING  committed: Lost, or READING: read        (see found)
    COMMITTING  Unsettled, and the same in READING       Read                           READING     UNSETTLED
    found       this channel: the commit had succeeded   End old, Open                  OPENING
    found       a newer one                              End old, Refuse 0x89           REFUSED     EXPENSIVE FAIL
    found       older than the old one                   End old, Refuse 0x89, INFO     REFUSED     ODD
    found       another one, older than this             End old, Begin with it         BEGINNING   MOST EXPENSIVE
    found       no channel                               End old, Commit                COMMITTING  MOST EXPENSIVE
    found       the old one                              Commit at its revision         COMMITTING
    found       retries used up                          Thaw or End old, Refuse 0x89   REFUSED     MOST EXPENSIVE
    READING     retries used up, still Unsettled         Withdraw, Thaw, Refuse 0x88    REFUSED     UNSETTLED
    both        Unsettled for good: patience used up     Withdraw, Thaw, Refuse 0x88    REFUSED     UNSETTLED
    OPENING     opened                                   Accept                         ACCEPTED
    any         abandon, not registered                  Thaw or End old                ABANDONED
    any         abandon, registered                      End old, Withdraw              ABANDONED

"Old" is the channel that was begun with, if any. Rules behind the table:

1. The local view is asked first, for clean starts too: an outdated channel touches nothing.
2. What was begun is thawed if it is still registered, and ended if it is not, whichever channel replaced it.
3. To find no channel is not odd: the old one closed by itself while the local view still showed it.
4. Session Present is asked for after the commit. From then on no other channel can make or discard the session.
5. `abandon` during a commit or a read waits for the answer: only it tells whether the old channel can go on.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.durable.takeover.registry import NOBODY, CommitLost, CommitResult, Committed, Registration, Unsettled
from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId
from holdfast.model.reasons import SERVER_BUSY, SERVER_UNAVAILABLE

# States.
NEW: Final = "new"
BEGINNING: Final = "beginning"
COMMITTING: Final = "committing"
READING: Final = "reading"
OPENING: Final = "opening"
ACCEPTED: Final = "accepted"
REFUSED: Final = "refused"
ABANDONED: Final = "abandoned"

# Paths: labels of a counter, one count per finished takeover.
HAPPY_FAIL: Final = "happy_fail"
EXPENSIVE_FAIL: Final = "expensive_fail"
MOST_EXPENSIVE: Final = "most_expensive"
HAPPY_ENDING: Final = "happy_ending"
ODD: Final = "odd"
UNSETTLED: Final = "unsettled"
PATHS: Final = (HAPPY_ENDING, HAPPY_FAIL, EXPENSIVE_FAIL, MOST_EXPENSIVE, ODD, UNSETTLED)

#: Retries after the first try. Each means that another channel of the client id came in between; few do.
MAX_RETRIES: Final = 8


class TakeoverCounts:
    """How the takeovers of a node ended since its start."""

    def __init__(self) -> None:
        #: By path. Each takeover counts once, for the path that it took last.
        self.paths: Final[dict[str, int]] = dict.fromkeys(PATHS, 0)
        #: By label: what became of begins that this node asked others for, and that others asked of it.
        self.begins: Final[dict[str, int]] = {}

    def ended(self, path: str) -> None:
        self.paths[path] += 1

    def begin(self, label: str) -> None:
        self.begins[label] = self.begins.get(label, 0) + 1

    def all(self) -> dict[str, int]:
        """By name, as they are shown."""
        return self.paths | {f"begin/{label}": count for label, count in self.begins.items()}


@dataclass
class Begin:
    """Freeze `old` for `taker` and let its commits under way finish; then `began`.

    A channel stays frozen while any taker holds it. One that is gone, or silent for too long, counts as begun:
    the commit fences it.
    """

    old: Registration
    taker: Registration


@dataclass
class Commit:
    """Ask the registry; then `committed`. On a retry, pause a little first: `Takeover.retries` is above 0."""

    registration: Registration
    expected_revision: int


@dataclass
class Read:
    """Read the registry's real content; then `read`. Pause a little first."""

    client_id: ClientId


@dataclass
class End:
    """`old` was replaced: its client gets DISCONNECT 0x8E. If it still waits for its own CONNACK, `abandon` it."""

    old: Registration
    taker: Registration


@dataclass
class Thaw:
    """`taker` does not replace `old`, which works on, unless another taker holds it or its node finds it replaced."""

    old: Registration
    taker: Registration


@dataclass
class Open:
    """Resume the stored session or make one, under this revision; discard it first if `clean_start`. Then `opened`."""

    registration: Registration
    clean_start: bool


@dataclass
class Withdraw:
    """Remove this channel from the registry, now and also if its unsettled commit shows up later. Nobody waits."""

    registration: Registration


@dataclass
class Refuse:
    """Send CONNACK with `reason` and close. `log_line`, if any, is logged at INFO."""

    reason: int
    detail: str
    log_line: str


@dataclass
class Accept:
    """Send CONNACK with Success."""

    registration: Registration
    session_present: bool


Action = Begin | Commit | Read | End | Thaw | Open | Withdraw | Refuse | Accept


class Takeover:
    """One channel on its way in.

    1. `registration.revision` is above `NOBODY` exactly if this channel was registered.
    2. In a final state it holds no old channel.
    """

    def __init__(self, registration: Registration, *, clean_start: bool, max_retries: int = MAX_RETRIES) -> None:
        self.registration = registration
        self.state = NEW
        self.path = HAPPY_ENDING
        self.retries = 0
        self._clean_start: Final = clean_start
        self._max_retries: Final = max_retries
        #: The channel that was begun with.
        self._old: Registration | None = None
        #: A commit of ours was unsettled once, so it may show up late.
        self._in_doubt = False
        self._leaving = False

    def start(self, local: Registration | None) -> list[Action]:
        """The client sent CONNECT; `local` is the registry's local view."""
        self._expect(NEW)
        if local is not None and self.registration.version < local.version:
            self.path = HAPPY_FAIL
            return self._outdated()
        return self._replace(local)

    def began(self) -> list[Action]:
        """The old channel is frozen, gone, or too slow to be waited for."""
        if self.state == ABANDONED:
            return []
        self._expect(BEGINNING)
        return self._commit(self._old)

    def committed(self, result: CommitResult) -> list[Action]:
        """The registry answered."""
        self._expect(COMMITTING)
        if isinstance(result, Committed):
            return self._registered(result.revision)
        if isinstance(result, CommitLost):
            return self._found(result.current, MOST_EXPENSIVE)
        self._in_doubt = True
        return self._read_again(result)

    def read(self, newest: Registration | Unsettled | None) -> list[Action]:
        """The registry told what it really holds."""
        self._expect(READING)
        if isinstance(newest, Unsettled):
            return self._read_again(newest)
        return self._found(newest, UNSETTLED)

    def opened(self, *, session_present: bool) -> list[Action]:
        """The session is ready; whether it had been stored before. A clean start discarded it."""
        if self.state == ABANDONED:
            return []
        self._expect(OPENING)
        self.state = ACCEPTED
        return [Accept(self.registration, session_present and not self._clean_start)]  # [MQTT-3.2.2-2], [MQTT-3.2.2-3]

    def abandon(self) -> list[Action]:
        """The client left, its session cannot be opened, or a newer channel ended this one before CONNACK."""
        if self.state in (COMMITTING, READING):
            self._leaving = True
        elif self.state == OPENING:
            self.state = ABANDONED
            return [Withdraw(self.registration)]
        elif self.state in (NEW, BEGINNING):
            self.state = ABANDONED
            return self._thaw()
        return []

    def check_invariants(self) -> None:
        """Raise MisuseError if a numbered invariant does not hold."""
        registered = self.registration.revision > NOBODY
        if registered != (self.state in (OPENING, ACCEPTED)) and not (registered and self.state == ABANDONED):
            raise MisuseError(f"1: {self.state} at revision {self.registration.revision}")
        if self.state in (ACCEPTED, REFUSED, ABANDONED) and self._old is not None:
            raise MisuseError(f"2: {self.state} and still holding {self._old}")

    def _found(self, current: Registration | None, path: str) -> list[Action]:
        """The registry holds `current`: win with it, go on from it, or give up."""
        if current is not None and current.same_channel(self.registration):
            return self._registered(current.revision)
        old = self._old
        actions = [] if current is not None and current.same_channel(old) else self._end()
        if current is not None and self.registration.version < current.version:
            self.path = EXPENSIVE_FAIL
            return actions + self._outdated()
        if current is not None and old is not None and current.version < old.version:
            self.path = ODD
            line = f"registered is {current.version.encode()}, older than {old.version.encode()}, which was known here"
            return actions + self._refuse(SERVER_BUSY, "the registry went backwards, try again", line)
        self.path = path
        if self._leaving or self.retries == self._max_retries:
            return actions + self._exhausted("others came in between")
        self.retries += 1
        return actions + self._replace(current)

    def _replace(self, current: Registration | None) -> list[Action]:
        """Begin with `current` unless that is done, then commit."""
        if current is not None and self._old is None:
            self._old = current
            self.state = BEGINNING
            return [Begin(current, self.registration)]
        return self._commit(current)

    def _commit(self, old: Registration | None) -> list[Action]:
        self.state = COMMITTING
        return [Commit(self.registration, NOBODY if old is None else old.revision)]

    def _read_again(self, answer: Unsettled) -> list[Action]:
        self.path = UNSETTLED
        if answer.final or self.retries == self._max_retries:
            return self._exhausted(answer.why)
        self.retries += 1
        self.state = READING
        return [Read(self.registration.client_id)]

    def _registered(self, revision: int) -> list[Action]:
        self.registration = self.registration.at_revision(revision)
        self.state = ABANDONED if self._leaving else OPENING
        if self._leaving:
            return [*self._end(), Withdraw(self.registration)]
        return [*self._end(), Open(self.registration, self._clean_start)]  # [MQTT-3.1.4-3], [MQTT-3.1.4-4]

    def _outdated(self) -> list[Action]:
        # Busy: if this node's clock was behind, trying again is the cure. MQTT 3 has a return code for it, too.
        return self._refuse(SERVER_BUSY, "a newer connection has this client id", "")

    def _exhausted(self, why: str) -> list[Action]:
        line = f"gave up after {self.retries} retries: {why}"
        if self.path == UNSETTLED:
            return self._refuse(SERVER_UNAVAILABLE, "the registry does not answer", line)
        return self._refuse(SERVER_BUSY, "too many connections with this client id at once", line)

    def _refuse(self, reason: int, detail: str, log_line: str) -> list[Action]:
        """Leave without being registered, as far as is known. A client that has left hears nothing of it."""
        actions: list[Action] = [Withdraw(self.registration)] if self._in_doubt else []
        actions += self._thaw()
        if not self._leaving:
            actions.append(Refuse(reason, detail, log_line))
        self.state = ABANDONED if self._leaving else REFUSED
        return actions

    def _thaw(self) -> list[Action]:
        old, self._old = self._old, None
        return [] if old is None else [Thaw(old, self.registration)]

    def _end(self) -> list[Action]:
        old, self._old = self._old, None
        return [] if old is None else [End(old, self.registration)]

    def _expect(self, state: str) -> None:
        if self.state != state:
            raise MisuseError(f"takeover is {self.state}, not {state}")
