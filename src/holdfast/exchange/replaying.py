"""History on its way to clients: as fast as they take it, or at the speed of a pace.

    paced      ●    ●  ●        ●        the moment that is replayed moves on with the clock, `speed` times as fast
    ───────────────────▲┄┄┄┄┄┄┄┄┄┄┄┄┄┄ the next message is not due: a deadline, and nothing is done until then
    joined     the moment has reached the present, and so has the reader: live messages follow by themselves

A pace slower than the clock never joins: the client stays as far behind as it asked for.
"""

from typing import TYPE_CHECKING, Final

from holdfast.durable.log import FOR_EVER
from holdfast.durable.log_queue import LogQueue
from holdfast.durable.sessions import KeepReplay
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, ReplayWalk, Subscribed
from holdfast.exchange.frames import with_place
from holdfast.exchange.pace import Pace
from holdfast.exchange.timer import Timer
from holdfast.exchange.under_way import UnderWay
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import V5
from holdfast.records.sessions import ReplayProgress
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery

#: Messages read at once.
_READ: Final = 100
#: Pages of history for one client in one turn.
_PAGES: Final = 10
#: A reader that waits longer than this lets go of the store: what it holds open cannot be removed from the disk.
_REST_US: Final = 1_000_000


class Replaying:
    """Sends history to subscriptions that asked for it, a page of each in turn."""

    def __init__(self, delivery: "Delivery", under_way: UnderWay) -> None:
        self._delivery: Final = delivery
        self._under_way: Final = under_way

    def send(self, client: Client, channel: Channel) -> None:
        """Send what there is room for, and what is due."""
        window = client.session.window
        pages = 0
        waiting = 0
        while not channel.congested and window.room():
            replays = client.replays
            if replays is None or waiting >= len(replays):
                return
            raw, replay = next(iter(replays.items()))
            pack = self._read(replay, min(_READ, window.free()))
            if pack is None:
                waiting += 1
                replays.move_to_end(raw)
                continue
            if not pack and replay.queue.at_end():
                client.end_replay(raw)
                self._keep(client, replay, joined=True)
                replay.joined()
                pages += 1
                if pages >= _PAGES:
                    self._delivery.mark(channel)
                    return
                continue
            unacknowledged = False
            for owed in pack:
                unacknowledged = unacknowledged or owed.qos == 1
                self._delivery.send_owed(client, channel, with_place(owed) if channel.version == V5 else owed)
            if pack and client.stored():
                self._keep(client, replay, joined=False)
                if unacknowledged:
                    # The replay does not come back to it: after a crash the window has to know it.
                    self._delivery.save_progress(client)
            pages += 1
            waiting = 0
            replays.move_to_end(raw)
            if pages >= _PAGES or not pack:
                self._delivery.mark(channel)
                return

    def send_passed_on(self, subscribed: Subscribed, messages: list[Message]) -> None:
        """QoS 0 that came too late for the log and too early for the subscription, which is live from now on."""
        client = subscribed.client
        channel = client.channel
        record = subscribed.record
        if channel is None or subscribed.until_us <= self._delivery.now_us:
            return
        for message in messages:
            own = record.no_local and message.publisher == client.session.client_id
            levels = message.topic.split(SEPARATOR)
            if own or record.hides(message.topic) or channel.congested:
                continue
            if levels_match(record.filter.levels, levels, dollar=is_dollar(message.topic)):
                identifiers = (record.identifier,) if record.identifier else ()
                owed = Owed(message, 0, retain=message.retain and record.retain_as_published, identifiers=identifiers)
                self._delivery.send_owed(client, channel, owed)

    def _read(self, replay: ReplayWalk, limit: int) -> list[Owed] | None:
        """The next messages; None if the next one is not due yet."""
        pace = replay.pace
        timer = self._delivery.timer
        if pace is None or timer is None:
            return replay.queue.read(0, limit)
        now_us = timer.now_us()
        if not pace.begun() and not self._begin(replay, pace, now_us):
            return []
        queue = replay.queue
        at_us = pace.at_us(now_us)
        if pace.at_present(now_us, self._delivery.now_us):
            replay.pace = None
            queue.up_to_us = FOR_EVER
            return queue.read(0, limit)
        queue.up_to_us = at_us
        pack = queue.read(0, limit)
        if pack:
            pace.last_us = pack[-1].message.position_us
        elif queue.next_us == FOR_EVER and at_us >= replay.until_us:
            # Nothing below the end is stored that was not sent. What is still being committed comes as it does to
            # anybody who is live.
            queue.up_to_us = FOR_EVER
            return queue.read(0, limit)
        elif queue.next_us:
            # What is not there yet will have a position of the present at least.
            next_us = min(queue.next_us, replay.until_us, max(self._delivery.now_us, at_us + 1))
            self._wait(replay, timer, pace.due_us(next_us) - now_us)
            return None
        return pack

    def _begin(self, replay: ReplayWalk, pace: Pace, now_us: int) -> bool:
        """Begin where it was asked to: at a moment, or at the first message; False while that is being looked for."""
        first_us = pace.first_us
        if not first_us:
            replay.queue.up_to_us = 0
            replay.queue.read(0, 1)
            first_us = replay.queue.next_us
            if not first_us:
                return False
        pace.begin(min(first_us, self._delivery.now_us), now_us)
        return True

    @staticmethod
    def _wait(replay: ReplayWalk, timer: Timer, delay_us: int) -> None:
        if delay_us > _REST_US:
            replay.queue.rest()
        timer.pump_after(delay_us, replay.subscribed.client)

    def _keep(self, client: Client, replay: ReplayWalk, *, joined: bool) -> None:
        """The position of a replay goes with what it sent, so that QoS 2 comes once."""
        raw = replay.subscribed.record.filter.raw
        sent = replay.queue.sent()
        queue = client.queue
        if joined and isinstance(queue, LogQueue):
            queue.replaying(raw, sent)
        if client.stored():
            pace = replay.pace
            progress = ReplayProgress(
                sent,
                replay.until_us,
                joined=joined,
                speed=0 if pace is None else pace.speed,
                at_us=0 if pace is None else pace.last_us,
            )
            self._under_way.step(KeepReplay(client.session.client_id, raw, progress))
