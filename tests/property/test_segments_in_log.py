"""A log whose commits become segments, are merged, sealed and read again after restarts, against a `timeline`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.durable.log import NO_END
from holdfast.durable.segment_patterns import learn_from_segment
from holdfast.durable.segments import build_segment
from holdfast.durable.zones import Zone
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import stored_position
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.property.test_layouts import filters, topics
from tests.unit.storage.rocks.log.store import Store, levels

pytestmark = pytest.mark.slow

#: With 20 KB three messages fill a page: forty make a segment with an index. One of 40 KB is a page alone.
_payload_bytes = st.sampled_from([0, 50, 9_000, 20_000, 40_000])
_commit = st.tuples(st.lists(topics, min_size=1, max_size=40), _payload_bytes)


class SmallCommits(NamedTuple):
    """Nine commits that each become a small segment, of which eight are merged; with 30 KB to one with an index."""

    commits: list[list[str]]
    payload_bytes: int


_small_commits = st.builds(
    SmallCommits,
    st.lists(st.lists(topics, min_size=1, max_size=3), min_size=9, max_size=9),
    st.sampled_from([1, 30_000]),
)
#: What makes a segment due; and after how many batches, of all segments made, the node is started again.
_segments = st.tuples(
    st.sampled_from([SegmentSize(messages=1), SegmentSize(messages=50), SegmentSize(commits=1)]),
    st.one_of(st.just(-1), st.integers(0, 15)),
)
_steps = st.lists(
    st.one_of(_commit, _segments, _segments, _small_commits, st.sampled_from(["reopen", "seal"])),
    min_size=1,
    max_size=8,
)
Step = tuple[list[str], int] | tuple[SegmentSize, int] | SmallCommits | str
#: A filter, and the messages at which the range begins and ends, in thousandths of all.
_questions = st.lists(
    st.tuples(filters(), st.integers(-200, 800), st.integers(300, 1_200)), min_size=1, max_size=4, unique=True
)
Question = tuple[str, int, int]


class Twins:
    """The same messages in two logs."""

    def __init__(self, folder: Path) -> None:
        self.paged, self.timeline = [
            Store(folder / layout, default=Zone("default", layout=layout, store_qos0=True))
            for layout in ("paged", "timeline")
        ]

    def take(self, step: Step, question: Question) -> None:
        if step == "reopen":
            self.reopen()
        elif step == "seal":
            self.paged.rotate()
            self.timeline.rotate()
        elif isinstance(step, SmallCommits):
            for commit in step.commits:
                self.write(commit, step.payload_bytes)
        elif isinstance(step[0], SegmentSize):
            self.make_segments(step[0], int(step[1]), question)
        else:
            self.write(list(step[0]), int(step[1]))

    def reopen(self) -> None:
        """Both, because positions go on behind what the run before had reserved."""
        self.paged.reopen()
        self.timeline.reopen()

    def write(self, commit: list[str], payload_bytes: int) -> None:
        for store in (self.paged, self.timeline):
            store.clock.advance(1_000)
            now_us = store.clock.wall_us()
            payload = bytes(payload_bytes)
            store.write(*[Message(topic.encode(), payload, 1, ClientId("p"), now_us) for topic in commit])
            store.settle()

    def make_segments(self, size: SegmentSize, cut: int, question: Question) -> None:
        """Every segment that is due, batch by batch; with a question between any two of them."""
        writer = SegmentWriter(self.paged.log, size)
        while (stretch := writer.next_stretch()) is not None:
            values = [value for values in writer.read(stretch) for value in values]
            if not values:
                continue
            segment = build_segment(values)
            learnt = learn_from_segment(writer.known_patterns(stretch), segment.messages_by_topic())
            for number, page in enumerate(segment.pages):
                if cut == 0:
                    self.reopen()
                    return
                writer.store_pages(stretch, number, [page])
                cut -= 1
                self.check(question)
            writer.finish(stretch, segment.directory, segment.map, segment.index, learnt)
            self.check(question)

    def check(self, question: Question) -> None:
        text, *thousandths = question
        written = self.timeline.written
        if not written:
            return
        bounds = [len(written) * part // 1_000 for part in thousandths]
        lo_us, hi_us = [
            0 if number < 0 else NO_END if number >= len(written) else written[number].position_us for number in bounds
        ]
        self._read_from_disk()
        wanted = self.timeline.read(text, lo_us, hi_us)
        positions = [message.position_us for message in wanted]
        found = self.paged.read(text, lo_us, hi_us)
        assert [message.position_us for message in found] == positions
        assert found == wanted
        assert sorted(self._records(text, lo_us, hi_us)) == positions
        assert list(self._backwards(text, lo_us, hi_us)) == positions[::-1]
        one = written[min(max(bounds[0], 0), len(written) - 1)]
        assert self.paged.reader.at(0, (), one.position_us) == one

    def _read_from_disk(self) -> None:
        """Nothing is read from memory, and no reader knows what another one has read."""
        for store in (self.paged, self.timeline):
            store.reader.revoke()
            for shard in store.zone_log().shards.values():
                shard.ring.evicted_us = shard.position_us

    def _records(self, text: str, lo_us: int, hi_us: int) -> Iterator[int]:
        """As a job reads that wants no order."""
        for piece, from_us, before_us in self.paged.zone_log().pieces(0, lo_us, hi_us):
            family = self.paged.engine.family(piece.family)
            yield from map(
                stored_position,
                filter(None, piece.layout.read(family, levels(text), from_us, before_us, in_order=False)),
            )

    def _backwards(self, text: str, lo_us: int, hi_us: int) -> Iterator[int]:
        for piece, from_us, before_us in reversed(self.paged.zone_log().pieces(0, lo_us, hi_us)):
            family = self.paged.engine.family(piece.family)
            for position_us, value in piece.layout.read_back(family, levels(text), from_us, before_us):
                if value:
                    yield position_us

    def close(self) -> None:
        self.paged.close()
        self.timeline.close()


@contextmanager
def open_twins() -> Iterator[Twins]:
    with TemporaryDirectory() as folder:
        twins = Twins(Path(folder))
        try:
            yield twins
        finally:
            twins.close()
        report = verify_folder(twins.paged.folder)
        assert report.problems == []
        assert report.messages == len(twins.timeline.written)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=_steps, questions=_questions)
@example(
    steps=[
        SmallCommits([["a", "b/c"]] * 9, 1),
        (SegmentSize(commits=1), -1),
        (["a/b", "b/c", "$s/a"] * 13, 20_000),
        "reopen",
    ],
    questions=[("#", -1, 1_001), ("+/c", 100, 900)],
)
@example(
    steps=[
        SmallCommits([["a/b", f"b/{number}", "a/c"] for number in range(9)], 30_000),
        (SegmentSize(commits=1), 25),
        SmallCommits([["a/b", f"b/{number}", "a/c"] for number in range(9)], 30_000),
        (SegmentSize(commits=1), -1),
        "reopen",
    ],
    questions=[("a/b", -1, 1_001), ("b/3", -1, 1_001), ("+/c", 100, 900)],
)
@example(
    steps=[
        ([f"plant/{number % 13}/temp" for number in range(40)], 20_000),
        (SegmentSize(messages=1), 7),
        (SegmentSize(messages=1), -1),
        (["plant/3/temp", "a"], 0),
    ],
    questions=[("plant/0/temp", -1, 1_001), ("plant/+/temp", 100, 900), ("+/0/#", 0, 1_001)],
)
def test_every_filter_finds_what_a_timeline_has_at_any_step(steps: list[Step], questions: list[Question]) -> None:
    """L4, L5, L20: before, while and after commit pages become segments and segments are merged, with an index and
    without, forwards, backwards, in no order and one by one.
    """
    with open_twins() as twins:
        for number, step in enumerate(steps):
            twins.take(step, questions[number % len(questions)])
            for question in questions:
                twins.check(question)
