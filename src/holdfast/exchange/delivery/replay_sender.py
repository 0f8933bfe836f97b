"""History on its way to clients: as fast as they take it, or at the speed of a pace.

    paced      ●    ●  ●        ●        the moment that is replayed moves on with the clock, `speed` times as fast
    ───────────────────▲┄┄┄┄┄┄┄┄┄┄┄┄┄┄ the next message is not due: a deadline, and nothing is done until then
    joined     the moment has reached the present, and so has the reader: live messages follow by themselves

A pace slower than the clock never joins: the client stays as far behind as it asked for.
"""

from typing import Final

from holdfast.durable.log import NO_END
from holdfast.durable.sessions.session_store import KeepReplay
from holdfast.exchange.client import BrokerClient, Channel, ReplayDelivery, Subscribed
from holdfast.exchange.control import Timer
from holdfast.exchange.delivery.frames import with_place
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pace import Pace
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import V5
from holdfast.records.session.sessions import ReplayProgress
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: Messages read at once: with each read the log looks up where to go on.
_READ: Final = 500
#: … and at most in one loop iteration for one client.
_MOST: Final = 1000
#: Pages of history for one client in one loop iteration.
_PAGES: Final = 10
#: A reader that waits longer than this lets go of the store: what it holds open cannot be removed from the disk.
_REST_US: Final = 1_000_000


class ReplaySender:
    """Sends history to subscriptions that asked for it, a page of each in turn."""

    def __init__(self, state: LoopState, timer: Timer, sender: Sender) -> None:
        self._state: Final = state
        self._timer: Final = timer
        self._sender: Final = sender

    def send(self, client: BrokerClient, channel: Channel) -> None:
        """Send what there is room for, and what is due."""
        window = client.session.window
        pages = 0
        left = _MOST
        waiting = 0
        while not channel.congested and window.room():
            replays = client.replays
            if replays is None or waiting >= len(replays):
                return
            raw, replay = next(iter(replays.items()))
            found = self._read(replay, min(_READ, window.free()))
            if found is None or (not found and replay.queue.waits()):
                waiting += 1
                replays.move_to_end(raw)
                continue
            if not found and replay.queue.at_end():
                client.end_replay(raw)
                self._keep(client, replay, joined=True)
                replay.joined()
                pages += 1
                if pages >= _PAGES:
                    self._state.mark(channel)
                    return
                continue
            unacknowledged = False
            for owed in found:
                unacknowledged = unacknowledged or owed.qos == 1
                self._sender.send_owed(client, channel, with_place(owed) if channel.version == V5 else owed)
            if found and client.stored():
                self._keep(client, replay, joined=False)
                if unacknowledged:
                    # The replay does not come back to it: after a crash the window has to know it.
                    self._sender.progress.save(client)
            pages += 1
            left -= len(found)
            waiting = 0
            replays.move_to_end(raw)
            if pages >= _PAGES or left <= 0 or not found:
                self._state.mark(channel)
                return

    def send_passed_on(self, subscribed: Subscribed, messages: list[Message]) -> None:
        """QoS 0 that came too late for the log and too early for the subscription, which is live from now on."""
        client = subscribed.client
        channel = client.channel
        record = subscribed.record
        if channel is None or subscribed.until_us <= self._state.now_us:
            return
        for message in messages:
            own = record.no_local and message.publisher == client.session.client_id
            levels = message.topic.split(SEPARATOR)
            if own or record.hides(message.topic) or channel.congested:
                continue
            if levels_match(record.filter.levels, levels, dollar=is_dollar(message.topic)):
                identifiers = (record.identifier,) if record.identifier else ()
                owed = Owed(message, 0, retain=message.retain and record.retain_as_published, identifiers=identifiers)
                self._sender.send_owed(client, channel, owed)

    def _read(self, replay: ReplayDelivery, limit: int) -> list[Owed] | None:
        """The next messages; None if the next one is not due yet."""
        pace = replay.pace
        if pace is None:
            return replay.queue.read(0, limit)
        now_us = self._timer.now_us()
        if not pace.begun() and not self._begin(replay, pace, now_us):
            return []
        queue = replay.queue
        at_us = pace.at_us(now_us)
        if pace.at_present(now_us, self._state.now_us):
            replay.pace = None
            queue.up_to_us = NO_END
            return queue.read(0, limit)
        queue.up_to_us = at_us
        found = queue.read(0, limit)
        if found:
            pace.last_us = found[-1].message.position_us
        elif queue.next_us == NO_END and at_us >= replay.until_us:
            # Nothing below the end is stored that was not sent. What is still being committed comes as it does to
            # any live client.
            queue.up_to_us = NO_END
            return queue.read(0, limit)
        elif queue.next_us:
            # What is not there yet will have a position of the present at least.
            next_us = min(queue.next_us, replay.until_us, max(self._state.now_us, at_us + 1))
            self._wait(replay, pace.due_us(next_us) - now_us)
            return None
        return found

    def _begin(self, replay: ReplayDelivery, pace: Pace, now_us: int) -> bool:
        """Begin where it was asked to: at a moment, or at the first message; False while that is being looked for."""
        first_us = pace.first_us
        if not first_us:
            replay.queue.up_to_us = 0
            replay.queue.read(0, 1)
            first_us = replay.queue.next_us
            if not first_us:
                return False
        pace.begin(min(first_us, self._state.now_us), now_us)
        return True

    def _wait(self, replay: ReplayDelivery, delay_us: int) -> None:
        if delay_us > _REST_US:
            replay.queue.pause()
        self._timer.pump_after(delay_us, replay.subscribed.client)

    def _keep(self, client: BrokerClient, replay: ReplayDelivery, *, joined: bool) -> None:
        """The position of a replay goes with what it sent, so that QoS 2 comes once."""
        raw = replay.subscribed.record.filter.raw
        sent = replay.queue.sent()
        if joined:
            client.queue.replayed(raw, sent)
        if client.stored():
            pace = replay.pace
            progress = ReplayProgress(
                sent,
                replay.until_us,
                joined=joined,
                speed=0 if pace is None else pace.speed,
                at_us=0 if pace is None else pace.last_us,
            )
            self._state.step(KeepReplay(client.session.client_id, raw, progress))
