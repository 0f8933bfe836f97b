"""Loads of messages: a closed loop as fast as the windows allow, and an open loop at a given rate."""

from __future__ import annotations

import os
import select
import time

from bench.brokers import jobs
from bench.brokers.clients import Publisher, Subscriber
from bench.brokers.crowd import STALL_S, Crowd, allow_open_files, leave_sessions
from bench.brokers.jobs import Job
from bench.brokers.packets import Cycle, Ring, Shape
from bench.brokers.stream import LostError
from bench.brokers.usage import Span, Usage

#: Messages of a ring, for large windows and for small ones; see `Ring`.
_RING = 4096
_SMALL_RING = 256
#: How late an open loop may send a message before it counts as sent when it was due.
_LATE_NS = 1_000_000
#: How long messages may be on their way after the last one was sent.
_REST_S = 20.0


class Load:
    """Publishers and subscribers of a job, connected and ready."""

    def __init__(self, job: Job) -> None:
        allow_open_files(job.publishers + job.subscribers)
        self.job = job
        self.crowd = Crowd(job.ports, job.version)
        self.run = f"{os.getpid() % 1_000_000:06d}"
        self.ready: list[Publisher] = []
        shape = Shape(job.version, job.qos)
        small = max(job.window, job.undelivered) < _SMALL_RING // 2
        self.ring_count = job.topics or (_SMALL_RING if small else _RING)
        self._sequence = Cycle(0, self.ring_count)
        self._packet_ids = Cycle(1, self.ring_count)
        self.topics = [self._topic(i) for i in range(job.publishers)]
        spread = job.topics > 0
        self.rings = [Ring(shape, topic, i, self.ring_count, spread=spread) for i, topic in enumerate(self.topics)]
        self.subscriber_ids = [f"s{self.run}-{i}" for i in range(job.subscribers)]
        self.receivers = job.subscribers if job.pattern == jobs.FAN_OUT else 1
        self.subscribers: list[Subscriber] = []
        self.publishers: list[Publisher] = []
        #: Turns of publishers that have nothing left to send.
        self._spent = 0

    def _topic(self, publisher: int) -> str:
        name = "all" if self.job.pattern == jobs.FAN_OUT else f"{publisher:03d}"
        return f"b/{self.run}/{name}"

    def _filter(self, subscriber: int) -> str:
        if self.job.pattern == jobs.FAN_IN:
            return f"b/{self.run}/+"
        topic = self.topics[0 if self.job.pattern == jobs.FAN_OUT else subscriber]
        return f"{topic}/+" if self.job.topics else topic

    def _sources(self, subscriber: int) -> list[int]:
        if self.job.pattern == jobs.FAN_IN:
            return list(range(self.job.publishers))
        return [0 if self.job.pattern == jobs.FAN_OUT else subscriber]

    def open_subscribers(self, *, subscribe: bool = True) -> None:
        job, crowd = self.job, self.crowd

        def make(place: int) -> Subscriber:
            sources = self._sources(place)
            # Not where its publisher is, if there are several nodes.
            port = crowd.port_of(place + 1)
            return Subscriber(crowd.poll, port, job.version, sources, self._sequence, self.ring_count)

        self.subscribers = crowd.open(make, self.subscriber_ids, clean=not job.persistent)
        if subscribe:
            crowd.subscribe(self.subscribers, [[self._filter(i)] for i in range(job.subscribers)], job.qos)

    def open_publishers(self) -> None:
        job, crowd = self.job, self.crowd

        def make(place: int) -> Publisher:
            return Publisher(
                crowd.poll, crowd.port_of(place), job.version, self.rings[place], self._packet_ids, self.ready
            )

        self.publishers = crowd.open(make, [f"p{self.run}-{i}" for i in range(job.publishers)])
        for publisher in self.publishers:
            publisher.qos, publisher.window, publisher.batch = job.qos, job.window, job.batch
            publisher.undelivered, publisher.receivers = job.undelivered, self.receivers
        if job.undelivered:
            for place, subscriber in enumerate(self.subscribers):
                subscriber.partner = self.publishers[self._sources(place)[0]]

        self._allow(job.messages)

    def _allow(self, messages: int) -> None:
        """So many more, shared by the publishers."""
        self._spent = 0
        for publisher in self.publishers:
            publisher.quota = publisher.sent - (-messages // len(self.publishers))

    def every_topic_once(self) -> None:
        self._allow(self.ring_count * len(self.publishers))
        self.closed_loop(_REST_S)
        self._allow(self.job.messages)

    def sent(self) -> int:
        return sum(publisher.sent for publisher in self.publishers)

    def acknowledged(self) -> bool:
        return self.job.qos == 0 or all(publisher.acked == publisher.sent for publisher in self.publishers)

    def got(self) -> int:
        return sum(subscriber.got for subscriber in self.subscribers)

    def closed_loop(self, seconds: float, *, wait_for_delivery: bool = True) -> int:
        """Send for so long, then wait for the rest; when the last message or acknowledgement came, in ns."""
        step = self.crowd.step
        for publisher in self.publishers:
            publisher.call()
        heard = now = time.monotonic_ns()
        ends = now + int(seconds * 1e9)
        sending = True
        while True:
            if self.ready:
                self._pump()
            if step(0.0 if self.ready else 0.05):
                heard = now = time.monotonic_ns()
            else:
                now = time.monotonic_ns()
                if now - heard > STALL_S * 1e9:
                    raise LostError(f"{self.got()} of {self.sent() * self.receivers} messages came")
            if sending and (now >= ends or self._all_sent()):
                sending = False
                for publisher in self.publishers:
                    publisher.quota = publisher.sent
            if now - ends > _REST_S * 1e9:
                raise LostError(f"{self.got()} of {self.sent() * self.receivers} messages came in time")
            if not sending and self.acknowledged() and (not wait_for_delivery or self._all_there()):
                return heard

    def _all_sent(self) -> bool:
        # The first half is cheap and false nearly always.
        return self._spent >= len(self.publishers) and all(each.sent == each.quota for each in self.publishers)

    def _all_there(self) -> bool:
        return self.got() >= self.sent() * self.receivers

    def _pump(self) -> None:
        """A batch for each publisher that has room."""
        turn = self.ready[:]
        self.ready.clear()
        for publisher in turn:
            publisher.queued = False
            if publisher.pump():
                publisher.call()
            elif publisher.sent == publisher.quota:
                self._spent += 1

    def open_loop(self, seconds: float, rate: int) -> int:
        """Send one message after the other at even distances; when the last one came."""
        job, crowd = self.job, self.crowd
        shape = Shape(job.version, job.qos)
        total = int(seconds * rate)
        began = time.monotonic_ns()
        distance = 1_000_000_000 // rate
        number = 0
        while number < total or self.got() < total * self.receivers or not self.acknowledged():
            now = time.monotonic_ns()
            while number < total and now >= began + number * distance:
                due = began + number * distance
                publisher, place = self.publishers[number % job.publishers], number // job.publishers % self.ring_count
                source = number % job.publishers
                stamp = due if now - due > _LATE_NS else time.monotonic_ns()
                publisher.sent += 1
                publisher.due_ns.append(stamp)
                publisher.send(shape.publish(self.topics[source], place + 1, source, place, stamp))
                number += 1
                now = time.monotonic_ns()
            # The poll itself knows milliseconds only.
            left_s = (began + number * distance - now) / 1e9 if number < total else 0.05
            select.select([crowd.poll], [], [], max(0.0, left_s))
            crowd.step(0.0)
            if now > began + (seconds + STALL_S) * 1e9:
                raise LostError(f"{self.got()} of {total * self.receivers} messages came")
        return time.monotonic_ns()

    def close(self) -> None:
        self.crowd.close([*self.publishers, *self.subscribers])
        if self.job.persistent:
            self.crowd.forget(self.subscriber_ids)

    def check_order(self) -> None:
        """LostError if messages came in another order than they were sent."""
        wrong = sum(subscriber.disorder for subscriber in self.subscribers)
        if wrong:
            raise LostError(f"{wrong} messages out of order")

    def check(self) -> None:
        """LostError if anything came that should not have, or in another order."""
        self.check_order()
        wrong = sum(publisher.disorder for publisher in self.publishers)
        if wrong:
            raise LostError(f"{wrong} acknowledgements out of order")
        if self.got() != self.sent() * self.receivers:
            raise LostError(f"{self.got()} messages came, {self.sent() * self.receivers} were expected")


def add_ballast(crowd: Crowd, count: int, run: str) -> None:
    """Subscriptions of others, half of them with wildcards; their clients stay until the generator ends."""
    each = 1000
    names = [_ballast_filter(number) for number in range(count)]
    clients = crowd.plain([f"x{run}-{i}" for i in range(-(-count // each))])
    crowd.subscribe(clients, [names[i * each : (i + 1) * each] for i in range(len(clients))], 0)


def _ballast_filter(number: int) -> str:
    end = ("temp", "state", "+", "#")[number % 4]
    return f"ballast/{number // 4:06d}/{end}"


def measure_closed(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    load = Load(job)
    if job.ballast:
        add_ballast(load.crowd, job.ballast, load.run)
    if job.absent:
        leave_sessions(load.crowd, "a", job.absent)
    load.open_subscribers()
    load.open_publishers()
    if job.known:
        load.every_topic_once()
    before = load.got()
    span = Span(usage)
    ended_ns = load.closed_loop(job.seconds)
    figures = span.figures(load.got() - before, ended_ns)
    load.close()
    load.check()
    return {"load": figures}


def measure_open(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    load = Load(job)
    load.open_subscribers()
    load.open_publishers()
    latencies: list[int] = []
    waits: list[int] = []
    for subscriber in load.subscribers:
        subscriber.latencies_ns = latencies
    for publisher in load.publishers:
        publisher.waits_ns = waits
    span = Span(usage)
    ended_ns = load.open_loop(job.seconds, job.rate)
    figures = span.figures(load.got(), ended_ns)
    load.close()
    load.check()
    for prefix, samples in (("", latencies), ("ack_", waits)):
        samples.sort()
        if samples:  # QoS 0 has no acknowledgements
            figures[f"{prefix}p50_us"] = samples[len(samples) // 2] / 1000
            figures[f"{prefix}p99_us"] = samples[len(samples) * 99 // 100] / 1000
    return {"load": figures}
