"""What all parts of the exchange share in one loop iteration: time, the open batch, and what is to be sent.

PUBLISH, SUBSCRIBE, …  ──▶ batch, effects ── seal ──▶ write ──▶ receipt ──▶ effects are carried out
frames for clients     ──▶ dirty          ── flush ─▶ one write per channel
room for more messages ──▶ due            ── pump ──▶ in the next iteration
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.control import Control, Timer
from holdfast.exchange.drops import Drops
from holdfast.exchange.pending_publish import Effect, FollowUp

#: From this many on, writing while a sync runs saves more than waiting for a larger batch does.
_LARGE: Final = 100


class SealedBatch:
    """A batch that is complete, with what is to be done when it is committed."""

    def __init__(self, batch: Batch, effects: list[Effect], size_bytes: int) -> None:
        self.batch: Final = batch
        self.effects: Final = effects
        #: Bytes that came while it was filled: about what it keeps in memory.
        self.size_bytes: Final = size_bytes


class LoopState:
    """What the parts add to, and what each of them needs to know.

    1. An effect stands in the same batch as the changes that it waits for, or in a later one.
    2. Channels in `dirty` are marked so, and clients in `due` are.
    """

    def __init__(self, control: Control, timer: Timer, drops: Drops) -> None:
        self._control: Final = control
        self._timer: Final = timer
        self.drops: Final = drops
        self.counters: Final = drops.counters
        #: Wall time of this iteration.
        self.now_us = 0
        #: The open batch: it is written at the end of the iteration.
        self.batch = Batch(1)
        #: What is done when the open batch has its receipt.
        self.effects: list[Effect] = []
        #: The last batch whose effects were carried out.
        self.committed = 0
        #: Channels that have something to send.
        self.dirty: list[Channel] = []
        #: Clients that are pumped in the next iteration.
        self.due: list[BrokerClient] = []
        #: Whether an iteration is scheduled.
        self.scheduled = False

    def schedule(self) -> None:
        """Something happened: have an iteration."""
        if not self.scheduled:
            self.scheduled = True
            self.now_us = self._timer.wall_us()
            self._control.schedule_iteration()

    # ---- the open batch

    def step(self, step: SessionStep) -> None:
        """Change a session with the open batch."""
        self.batch.steps.append(step)

    def after_commit(self, channel: Channel, frame: bytes, then: Callable[[], None] | None = None) -> None:
        """Send a frame, and go on, once everything of the channel's session up to now is committed.

        What goes on is the answer to CONNECT or SUBSCRIBE: no message reaches that channel before it.
        """
        if then is not None:
            channel.changing += 1
        self.effects.append(Effect(channel, frame, then))
        self.schedule()

    def follow_up(self, session_id: str, then: Callable[[], None]) -> None:
        """Go on once everything of a session up to now is committed, or does not count."""
        self.effects.append(FollowUp(session_id, then))
        self.schedule()

    def nothing_open(self) -> bool:
        """Whether the open batch has nothing to write, and nothing waits for it."""
        return not self.effects and len(self.batch) == 0

    def is_large(self) -> bool:
        """Whether the open batch is worth its own write, though a sync is under way."""
        return len(self.effects) >= _LARGE or len(self.batch) >= _LARGE

    def seal(self, size_bytes: int) -> SealedBatch:
        """Close the open batch and begin the next one."""
        sealed = SealedBatch(self.batch, self.effects, size_bytes)
        self.batch = Batch(sealed.batch.number + 1)
        self.effects = []
        return sealed

    # ---- what is sent

    def mark(self, channel: Channel) -> None:
        """The channel has something to send."""
        if not channel.dirty:
            channel.dirty = True
            self.dirty.append(channel)

    def send(self, channel: Channel, frame: bytes) -> None:
        """Put a frame into a channel's output."""
        if not channel.closed:
            channel.put(frame)
            self.mark(channel)

    def pump_soon(self, client: BrokerClient) -> None:
        """Send what waits for a client in the next iteration: once, however many acknowledgements made room."""
        if not client.pump_due:
            client.pump_due = True
            self.due.append(client)


class ReadFlow:
    """Which connections are read from: a client is not while its packets wait for something else.

    1. A channel in `waiting` has packets left over from the last loop iteration, and is not read from.
    """

    def __init__(self) -> None:
        self.waiting: list[Channel] = []

    def pause(self, channel: Channel) -> None:
        """Read no more from a client whose packets are not being handled."""
        if not channel.reading_paused:
            channel.reading_paused = True
            channel.link.pause_reading()

    def read_on(self, channel: Channel) -> None:
        """Read again, unless something still stands against it."""
        stopped = channel.congested or channel.blocked or channel.closed or channel.publish_credit == 0
        stopped = stopped or channel.stalled
        if channel.reading_paused and not stopped and channel not in self.waiting:
            channel.reading_paused = False
            channel.link.resume_reading()

    def wait(self, channel: Channel) -> None:
        """Others first: the rest of the channel's packets is for the next iteration, and no more is read until then."""
        if channel.publish_credit != 0:
            self.waiting.append(channel)
        self.pause(channel)

    def take_waiting(self) -> list[Channel]:
        """The channels whose packets are to be handled now."""
        waiting = self.waiting
        self.waiting = []
        return waiting
