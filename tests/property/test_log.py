"""The log against a list: whatever is published, rotated, dropped, indexed, reopened, or asked for.

A machine writes to a real log with several zones and shards, changes its settings when it opens it again, and reads it
in every way there is. What it wrote is kept in a list, and brute force over the list says what is right.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from holdfast.durable.log import NO_END
from holdfast.durable.replay import LogReplay
from holdfast.durable.zones import FSYNC, MEMORY, OS, Zone
from holdfast.model.message import Message
from holdfast.records.cursors import decode_cursor, encode_cursor
from tests.replays import resumed_replay
from tests.unit.storage.rocks.log.cluster_store import ClusterStore
from tests.unit.storage.rocks.log.store import (
    HOUR_US,
    Store,
    by_publisher_and_topic,
    drain,
    levels,
    places,
    zone,
)

TOPICS = ["a", "a/b", "x/1", "x/2", "x/1/temp", "x/2/temp", "y/1", "y/2", "$app/1", "m/x/1", "a/b/c/d"]
FILTERS = ["#", "+", "a/#", "x/+", "x/+/temp", "x/1/temp", "+/1", "y/#", "$app/#", "m/+/1", "a/b/c/d", "none"]
PUBLISHERS = ["p0", "p1", "p2", "p3", "p4"]


@st.composite
def zone_settings(draw: st.DrawFn, layouts: tuple[str, ...]) -> tuple[list[Zone], Zone, list[str]]:
    """The default zone, and some others; also other filters under a name that was there before."""

    def one(name: str, *filters: str) -> Zone:
        layout = draw(st.sampled_from(layouts))
        return zone(
            name,
            *filters,
            shards=draw(st.integers(1, 3)),
            layout=layout,
            thresholds=draw(st.sampled_from([(), (1,), (2, 1)])) if layout == "learned" else (),
            durability=draw(st.sampled_from([FSYNC, FSYNC, OS, MEMORY])),
            retention_s=0,
            store=draw(st.integers(0, 5)) > 0,
        )

    zones = [
        one(name, draw(st.sampled_from(filters)))
        for name, filters in (("one", ["x/#", "x/+"]), ("two", ["y/#", "y/1", "a/b/#"]))
        if draw(st.booleans())
    ]
    return zones, one("default"), draw(st.sampled_from([[], ["m/"]]))


#: Shrinking a failure of so many steps on a real disk takes longer than reading it.
_SETTINGS = settings(
    max_examples=8,
    stateful_step_count=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class LogMachine(RuleBasedStateMachine):
    """See the module."""

    layouts: ClassVar[tuple[str, ...]] = ("timeline", "learned", "bitmask")

    cursors = Bundle("cursors")

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-log-"))
        zones, default, mounts = data.draw(zone_settings(self.layouts))
        self.store: Store = self.open_store(zones, default, mounts)
        self.running: list[tuple[LogReplay, str, int, list[Message]]] = []
        #: Places that retention has taken.
        self.gone: set[tuple[int, int]] = set()

    def open_store(self, zones: list[Zone], default: Zone, mounts: list[str]) -> Any:
        return Store(self.folder / "data", *zones, default=default, mounts=mounts)

    # ---- writing

    @rule(
        sends=st.lists(st.tuples(st.sampled_from(TOPICS), st.sampled_from(PUBLISHERS)), min_size=1, max_size=12),
        passes_us=st.sampled_from([0, 0, 1, 5_000_000]),
        withhold=st.booleans(),
    )
    def publish(self, sends: list[tuple[str, str]], passes_us: int, *, withhold: bool) -> None:
        self.store.clock.advance(passes_us)
        self.store.write(*[self.store.message(topic, publisher) for topic, publisher in sends])
        if not withhold:
            self.store.settle()

    @rule()
    def settle(self) -> None:
        self.store.settle()

    @rule(us=st.sampled_from([-HOUR_US, -1_000, 1_000, 10 * HOUR_US]))
    def step_the_clock(self, us: int) -> None:
        self.store.clock.step_wall(us)

    # ---- generations

    @rule(data=st.data())
    def rotate(self, data: st.DataObject) -> None:
        names = self.store.zone_names()
        if names:
            self.store.rotate(data.draw(st.sampled_from(names)))

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        sealed = self.store.zone_names(sealed=True)
        if sealed:
            dropped = self.store.drop_oldest(data.draw(st.sampled_from(sealed)))
            self.gone.update(
                place
                for place in places(self.store.written)
                for record in dropped
                if place[0] in record.shards and record.start_us <= place[1] < record.end_us
            )

    @rule(rounds=st.integers(1, 4))
    def write_behind(self, rounds: int) -> None:
        for _ in range(rounds):
            self.store.maintenance.write_index_slice()

    @rule()
    def tick(self) -> None:
        self.store.maintenance.tick()

    @rule()
    def reopen(self) -> None:
        self.running.clear()
        self.store.reopen()

    @rule(data=st.data())
    def reopen_with_other_settings(self, data: st.DataObject) -> None:
        self.running.clear()
        zones, default, mounts = data.draw(zone_settings(self.layouts))
        self.store.reopen(*zones, default=default, mounts=mounts)

    # ---- reading

    def _visible(self, text: str, since_us: int, until_us: int) -> list[Message]:
        heads: dict[int, int] = {}
        return [
            message
            for message in self.store.expected(text, since_us, until_us)
            if message.position_us <= heads.setdefault(message.shard, self.store.reader.heads()[message.shard])
            and (message.shard, message.position_us) not in self.gone
        ]

    def _time(self, data: st.DataObject, otherwise_us: int) -> int:
        positions = [message.position_us for message in self.store.written]
        if not positions or data.draw(st.booleans()):
            return otherwise_us
        return data.draw(st.sampled_from(positions)) + data.draw(st.integers(-1, 1))

    @rule(data=st.data(), text=st.sampled_from(FILTERS), limit=st.sampled_from([1, 2, 5, 100]), by_time=st.booleans())
    def replay(self, data: st.DataObject, text: str, limit: int, *, by_time: bool) -> None:
        since_us = self._time(data, 0)
        until_us = self._time(data, NO_END)
        found, _lost = drain(self.store.replay(text, since_us, until_us, by_time=by_time), limit)
        self._compare(found, self._visible(text, since_us, until_us))
        if by_time:
            positions = [message.position_us for message in found]
            assert positions == sorted(positions)

    @staticmethod
    def _compare(found: list[Message], expected: list[Message]) -> None:
        assert sorted(places(found)) == sorted(places(expected))
        assert dict(zip(places(found), found, strict=True)) == dict(zip(places(expected), expected, strict=True))
        wanted = by_publisher_and_topic(expected)
        for key, messages in by_publisher_and_topic(found).items():
            assert places(messages) == places(wanted[key]), "L1"

    @rule(target=cursors, data=st.data(), text=st.sampled_from(FILTERS), pages=st.integers(0, 3), by_time=st.booleans())
    def read_a_part(
        self, data: st.DataObject, text: str, pages: int, *, by_time: bool
    ) -> tuple[str, int, str, list[Message]]:
        since_us = self._time(data, 0)
        replay = self.store.replay(text, since_us, by_time=by_time)
        found = [message for _ in range(pages) for message in replay.next(data.draw(st.integers(1, 4))).messages]
        if data.draw(st.booleans()):
            self.running.append((replay, text, since_us, found))
        return text, since_us, encode_cursor(replay.cursor()), list(found)

    @rule(saved=cursors, limit=st.sampled_from([1, 3, 100]), by_time=st.booleans())
    def resume(self, saved: tuple[str, int, str, list[Message]], limit: int, *, by_time: bool) -> None:
        """What was read before, and what is read now: all there is, but for what retention took between."""
        text, since_us, cursor, before = saved
        replay = resumed_replay(self.store.reader, levels(text), decode_cursor(cursor), since_us, by_time=by_time)
        self._check_whole(replay, text, since_us, before, limit)

    @rule(data=st.data(), limit=st.sampled_from([1, 3, 100]))
    def go_on(self, data: st.DataObject, limit: int) -> None:
        """A reader that was there all the time."""
        if self.running:
            at = data.draw(st.integers(0, len(self.running) - 1))
            replay, text, since_us, found = self.running[at]
            found.extend(self._check_whole(replay, text, since_us, found, limit))

    def _check_whole(
        self, replay: LogReplay, text: str, since_us: int, before: list[Message], limit: int
    ) -> list[Message]:
        done = replay.cursor().done
        rest, lost = drain(replay, limit)
        both = places(before) + places(rest)
        assert len(both) == len(set(both)), "twice"
        visible = places(self._visible(text, since_us, NO_END))
        assert set(visible) <= set(both), "missing"
        assert set(both) <= set(visible) | self.gone, "not written, or not durable"
        missing = set(places(self.store.expected(text, since_us))) & self.gone - set(both)
        for shard, position_us in missing:
            if 0 < done.get(shard, since_us - 1) < position_us:  # who began at the earliest has lost nothing
                assert any(item.shard == shard and item.from_us <= position_us < item.to_us for item in lost), "silence"
        all_places = places(self.store.written)
        for item in lost:
            held = [place for place in self.gone if place[0] == item.shard and item.from_us <= place[1] < item.to_us]
            assert len(held) <= item.at_most <= len([place for place in all_places if place[0] == item.shard])
        return rest

    # ---- always

    @invariant()
    def positions_increase(self) -> None:
        """Q9, L14."""
        if not hasattr(self, "store"):
            return
        last: dict[int, int] = {}
        for message in self.store.written:
            assert message.position_us > last.get(message.shard, 0)
            last[message.shard] = message.position_us

    @invariant()
    def heads_are_behind(self) -> None:
        if not hasattr(self, "store"):
            return
        for zone_log in self.store.log.zone_logs.values():
            for shard in zone_log.shards.values():
                assert shard.head_us <= shard.position_us <= shard.clock.last_us
                assert shard.head_us <= shard.clock.ceiling_us, "Q9"
                shard.ring.check_invariants()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)


class ClusterLogMachine(LogMachine):
    """The same over the vnodes of a cluster: zones stay as they are, and nothing is written behind."""

    layouts = ("timeline", "bitmask", "paged")

    def open_store(self, zones: list[Zone], default: Zone, mounts: list[str]) -> Any:
        return ClusterStore(self.folder / "data", *zones, default=default, mounts=mounts)

    def write_behind(self) -> None:
        """No rule."""

    def tick(self) -> None:
        """No rule."""

    def reopen_with_other_settings(self) -> None:
        """No rule."""

    def heads_are_behind(self) -> None:
        """No invariant: heads are what was applied."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_log_of_a_cluster_gives_what_brute_force_gives() -> None:
    """L1, L2, L3, L4, L11, L12, L13, L14, L20, Q9."""
    run_state_machine_as_test(ClusterLogMachine, settings=_SETTINGS)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "layouts", [("timeline",), ("learned",), ("bitmask",), ("timeline", "learned", "bitmask")], ids=" ".join
)
def test_the_log_gives_what_brute_force_gives(layouts: tuple[str, ...]) -> None:
    """L1, L2, L3, L11, L12, L13, L14, L20, Q9."""
    machine = type("Machine", (LogMachine,), {"layouts": layouts})
    run_state_machine_as_test(machine, settings=_SETTINGS)
