"""A story: the real broker on a disk, a few clients, and somebody who chooses what happens next.

Whatever can happen next is a lane: a client acts, or reads what came; the disk syncs a batch; the process is killed.
In a fine story the broker's loop is a lane too, and makes one round at a time, so that things can come together in one
turn or in between; else it goes on until it has nothing left to do.

When no lane is left, or after the kill, the rest is told in one way: everybody returns, everything is synced, read and
acknowledged, and everybody returns once more. Then the ledger has to be right.
"""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Stores
from holdfast.model.clock import Clock, ManualClock
from tests.crash.broker_ledger import Ledger
from tests.interleavings.clients import Client, StoryPublisher
from tests.interleavings.orders import Choose
from tests.world import World

_START_US: Final = 1_700_000_000_000_000
#: Between two lives: less than positions are ahead after a crash.
_DOWN_US: Final = 1_000_000
#: Rounds after which the broker should have come to rest.
_MANY: Final = 200


class Disk(Protocol):
    """What keeps the broker's state."""

    held: bool

    def open(self, policy: Policy, clock: Clock) -> Stores: ...

    def unsynced(self) -> int: ...

    def sync(self) -> None: ...

    def kill(self, choose: Choose) -> None: ...

    def close(self) -> None: ...


class StoryWorld(World):
    """One life of the broker."""

    def __init__(self, disk: Disk, start_us: int) -> None:
        self._disk = disk
        self._start_us = start_us
        #: The loop goes on only when it is asked to.
        self.fine = False
        super().__init__()

    def make_stores(self, policy: Policy) -> Stores:
        self.clock = ManualClock(self._start_us)
        return self._disk.open(policy, self.clock)

    def stirs(self) -> bool:
        """Whether the loop has something to do."""
        return len(self._loop._ready) > 0  # type: ignore[attr-defined]

    def round(self) -> None:
        """One round of the loop: what is ready now, and not what that makes ready."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        if self._failures:
            raise self._failures.pop(0)

    def settle(self) -> None:
        """Let the broker come to rest; a disk that nobody holds back syncs as soon as it is asked to."""
        rounds = 0
        while not self.fine and (self.stirs() or (not self._disk.held and self._disk.unsynced())):
            if self.stirs():
                self.round()
            else:
                self._disk.sync()
            rounds += 1
            assert rounds < _MANY, "the broker does not come to rest"


class Lane:
    """What one party does, in its order. `ready` says whether the next of it can happen now."""

    def __init__(self, name: str, steps: list[Callable[[], None]], ready: Callable[[], bool]) -> None:
        self.name: Final = name
        self.steps: Final = steps
        self.ready: Final = ready


class Story:
    """One telling: clients and what they do are added, then `tell`."""

    def __init__(self, disk: Disk, choose: Choose, *, fine: bool = False, kills: bool = False) -> None:
        self.disk: Final = disk
        self.choose: Final = choose
        self.ledger: Final = Ledger()
        self.ledger.tick()
        self.clients: Final[list[Client]] = []
        #: What happened, in words.
        self.trail: Final[list[str]] = []
        self.killed = False
        #: Called right before the process ends.
        self.on_kill: Callable[[], None] = lambda: None
        self._eager: Final[list[Client]] = []
        self._late: Final[list[Client]] = []
        self._before: Final[list[Callable[[], None]]] = []
        self._lanes: Final[list[Lane]] = []
        self._fine: Final = fine
        self._kills: Final = kills
        self._lives = 0
        self.world = self._new_life()

    def _new_life(self) -> StoryWorld:
        self._lives += 1
        return StoryWorld(self.disk, _START_US + self._lives * _DOWN_US)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.__exit__(kind, error, trace)
        self.disk.close()

    # ---- before

    def add(self, client: Client, *, eager: bool = False, late: bool = False) -> None:
        """`eager`: when it reads is of no interest, so it does at once. `late`: it is not there at the beginning."""
        self.clients.append(client)
        if late:
            self._late.append(client)
        if eager:
            self._eager.append(client)

    def acts(self, client: Client, *steps: Callable[[], None], offline: bool = False) -> None:
        """What a client does, each when it is online, or also when it is not."""
        self._lanes.append(Lane(client.name, list(steps), lambda: offline or client.online))

    def _begin(self) -> None:
        """Everybody is there and subscribed; from now on the story is in the hands of who chooses."""
        for client in self.clients:
            if client not in self._late:
                client.connect(self.world)
                self.rest()
        for step in self._before:
            step()
            self.rest()
        self.disk.held = True
        self.world.fine = self._fine

    def publishes(self, client: StoryPublisher, *qos: int) -> None:
        """A message of each QoS, on a topic for each."""
        self.acts(client, *(partial(client.publish_to, f"a/{each}", each) for each in qos))

    def before(self, *steps: Callable[[], None]) -> None:
        """What has happened when the story begins."""
        self._before.extend(steps)

    def tell(self, lost: Callable[[], int] = int) -> None:
        """From the beginning to the verdict. `lost`: how much a group may miss."""
        self.play()
        self._end()
        self._check(lost())

    def play(self) -> None:
        """The part that is told in many orders."""
        self._begin()
        self._run()

    # ---- in between

    def _possible(self) -> list[tuple[str, Callable[[], None]]]:
        """What can happen next."""
        found: list[tuple[str, Callable[[], None]]] = []
        if self._fine and self.world.stirs():
            found.append(("the loop", self.world.round))
        if self.disk.unsynced():
            found.append(("a sync", self.disk.sync))
        found += [(f"{lane.name} acts", lane.steps[0]) for lane in self._lanes if lane.steps and lane.ready()]
        found += [(f"{client.name} reads", client.read) for client in self.clients if client.unread()]
        if self._kills:
            found.append(("a kill", self._kill))
        return found

    def _run(self) -> None:
        """Let everything happen that can, in the order that is chosen."""
        while not self.killed and (lanes := self._possible()):
            name, step = lanes[self.choose(len(lanes))]
            self.trail.append(name)
            for lane in self._lanes:
                if lane.steps and lane.steps[0] is step:
                    del lane.steps[0]
                    break
            step()
            self.world.settle()
            self._read_eagerly()

    def _read_eagerly(self) -> None:
        while waiting := [client for client in self._eager if client.unread()]:
            for client in waiting:
                client.read()
            self.world.settle()

    def _kill(self) -> None:
        self.on_kill()
        self.disk.kill(self.choose)
        self.killed = True
        for client in self.clients:
            client.cut_off()

    # ---- the end

    def _end(self) -> None:
        """Everybody returns, everything arrives, and then nothing more does."""
        self.disk.held = False
        if self.killed:
            self.world.__exit__(None, None, None)
            self.world = self._new_life()
        self.world.fine = False
        self.world.settle()
        returning = list(self.clients)
        if self.choose(2):
            returning.reverse()
        for client in returning:
            if not client.online:
                client.connect(self.world)
            self.rest()
        for lane in self._lanes:
            for step in lane.steps:
                step()
                self.rest()
            lane.steps.clear()
        for client in returning:
            client.drop()
            client.connect(self.world)
            self.rest()

    def rest(self) -> None:
        """Everybody reads and answers until nothing more comes."""
        rounds = 0
        self.world.settle()
        while waiting := [client for client in self.clients if client.unread()]:
            for client in waiting:
                client.read()
            self.world.settle()
            rounds += 1
            assert rounds < _MANY, "the clients do not come to rest"

    def _check(self, lost: int) -> None:
        """Nothing acknowledged is missing, QoS 2 came once, everything in order, Session Present told the truth."""
        missing = self.ledger.missing_in_groups()
        found = self.ledger.verdict(marked=True) + (missing if len(missing) > lost else [])
        assert found == [], f"{found}, after {self.trail}"
