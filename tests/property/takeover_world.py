"""A small world in which channels of one client id connect, and somebody else decides what happens next.

Everything that can happen stands in a lane; lanes are independent of each other, and inside a lane order is kept,
as on a connection between two nodes. Whoever runs the world picks the next lane, and so one of all possible orders.
A view that lags needs no lane of its own: how late it is matters only when it is read, and is chosen then.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from holdfast.durable.takeover.registry import ChannelVersion, MemoryRegistry, Registration, Unsettled
from holdfast.durable.takeover.takeover import (
    MAX_RETRIES,
    Accept,
    Action,
    Begin,
    Commit,
    End,
    Open,
    Read,
    Refuse,
    Takeover,
    Thaw,
    Withdraw,
)
from holdfast.model.ids import ClientId
from tests.unit.durable.takeover.lagging_registry import Change, LaggingRegistry, at_once

CLIENT = ClientId("pump-7")

#: One of `n` possibilities, counted from 0.
Choose = Callable[[int], int]


@dataclass(frozen=True)
class Plan:
    """A channel that will connect."""

    at_ms: int
    node: int
    clean_start: bool = False
    #: Its client goes away at some moment.
    leaves: bool = False


@dataclass
class Channel:
    number: int
    plan: Plan
    takeover: Takeover
    accepted: bool = False
    refused: bool = False
    #: Its connection is closed: by the client, by a refusal, by a newer channel.
    closed: bool = False
    frozen_by: set[int] = field(default_factory=set)

    @property
    def version(self) -> ChannelVersion:
        return self.takeover.registration.version

    @property
    def lives(self) -> bool:
        return self.accepted and not self.closed


class World:
    """`faults`: answers of the registry get lost, old channels do not answer, and nodes watch the registry.

    Watching is what tells a channel that it was replaced when nobody else could. Retries are few then, so that
    takers also give up.
    """

    def __init__(self, plans: list[Plan], views: int, choose: Choose, *, faults: bool = False) -> None:
        self.real = MemoryRegistry()
        self.changes: list[Change] = []
        self.views = [LaggingRegistry(self.real, self.changes) for _view in range(views)]
        self.choose = choose
        self.faults = faults
        self.lanes: dict[tuple[str, int, int], deque[Callable[[], None]]] = {}
        #: The stored session: whether there is one, and the revision that fences older owners.
        self.session_exists = False
        self.session_revision = 0
        self.channels: list[Channel] = []
        for number, plan in enumerate(plans):
            registration = Registration(CLIENT, plan.node, number, ChannelVersion(plan.at_ms, plan.node, number))
            takeover = Takeover(registration, clean_start=plan.clean_start, max_retries=2 if faults else MAX_RETRIES)
            channel = Channel(number, plan, takeover)
            self.channels.append(channel)
            self.soon("client", number, number, partial(self.connect, channel))
            if plan.leaves:
                self.soon("leave", number, number, partial(self.leave, channel))

    def run(self) -> None:
        """Let everything happen that can, in the order that `choose` wants, and check after each step."""
        while self.lanes:
            lane = sorted(self.lanes)[self.choose(len(self.lanes))]
            step = self.lanes[lane].popleft()
            if not self.lanes[lane]:
                del self.lanes[lane]
            step()
            self.check_step()

    def registered(self) -> Registration | None:
        newest = at_once(self.real.read_newest(CLIENT))
        assert not isinstance(newest, Unsettled)
        return newest

    def check_step(self) -> None:
        self.real.check_invariants()
        for channel in self.channels:
            channel.takeover.check_invariants()
        working = [channel for channel in self.channels if channel.lives and not channel.frozen_by]
        if self.faults:
            # A channel that could not be frozen still takes commands; its writes are refused.
            fence = self.session_revision
            working = [channel for channel in working if channel.takeover.registration.revision >= fence]
        assert len(working) <= 1, "two channels work on one session"

    def soon(self, kind: str, one: int, other: int, step: Callable[[], None]) -> None:
        self.lanes.setdefault((kind, one, other), deque()).append(step)

    def view(self, channel: Channel) -> LaggingRegistry:
        return self.views[channel.plan.node % len(self.views)]

    def connect(self, channel: Channel) -> None:
        if channel.closed:
            return
        view = self.view(channel)
        view.hear(self.choose(view.lag() + 1))
        self.perform(channel, channel.takeover.start(view.local_newest(CLIENT)))

    def leave(self, channel: Channel) -> None:
        if channel.closed:
            return
        channel.closed = True
        if channel.accepted:
            self.perform(channel, [Withdraw(channel.takeover.registration)])
        else:
            self.perform(channel, channel.takeover.abandon())

    def perform(self, channel: Channel, actions: list[Action]) -> None:
        """Put actions on their way."""
        number = channel.number
        for action in actions:
            if isinstance(action, Begin | Thaw | End):
                old = self.channels[action.old.connection_id]
                self.soon("old", number, old.number, partial(self.reach, channel, old, action))
            elif isinstance(action, Commit | Read | Withdraw):
                self.soon("registry", number, number, partial(self.ask, channel, action))
            elif isinstance(action, Open):
                self.soon("session", number, number, partial(self.open, channel, action))
            elif isinstance(action, Accept):
                channel.accepted = True
            elif isinstance(action, Refuse):
                channel.refused = channel.closed = True

    def reach(self, taker: Channel, old: Channel, action: Begin | Thaw | End) -> None:
        if isinstance(action, Begin):
            if not (self.faults and self.choose(4) == 3):
                old.frozen_by.add(taker.number)
            self.soon("began", taker.number, old.number, lambda: self.perform(taker, taker.takeover.began()))
        elif isinstance(action, Thaw):
            old.frozen_by.discard(taker.number)
        else:
            self.end(old)

    def end(self, old: Channel) -> None:
        old.frozen_by.clear()
        old.closed = True
        self.perform(old, old.takeover.abandon())

    def ask(self, channel: Channel, action: Commit | Read | Withdraw) -> None:
        view, takeover = self.view(channel), channel.takeover
        fate = self.choose(3) if self.faults and not isinstance(action, Withdraw) else 0
        lost = Unsettled("lost")
        if isinstance(action, Withdraw):
            at_once(view.remove(action.registration))
        elif isinstance(action, Read):
            newest = lost if fate else at_once(view.read_newest(action.client_id))
            self.soon("answer", channel.number, 0, lambda: self.perform(channel, takeover.read(newest)))
        else:
            before = self.registered()
            result = lost if fate == 1 else at_once(view.commit(action.registration, action.expected_revision))
            answer = lost if fate else result
            self.soon("answer", channel.number, 0, lambda: self.perform(channel, takeover.committed(answer)))
            if self.faults and before is not None and not before.same_channel(self.registered()):
                replaced = self.channels[before.connection_id]
                self.soon("watch", replaced.number, 0, partial(self.end, replaced))

    def open(self, channel: Channel, action: Open) -> None:
        if channel.closed or action.registration.revision < self.session_revision:
            return
        self.session_revision = action.registration.revision
        before = self.session_exists and not action.clean_start
        actions = channel.takeover.opened(session_present=self.session_exists)
        assert actions == [Accept(action.registration, before)]
        self.session_exists = True
        self.perform(channel, actions)
