"""Homes of client queues against the model, in any order of calls: what differs is a fault of one of them."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.durable.queues.queue_store import DROP_OLDEST, REFUSE, QueueEntry, QueueLimits
from holdfast.model.clock import Clock
from tests.conformance.queue_backends import BACKENDS, Backend
from tests.conformance.test_queue_store import SECOND_US, SLOW, Queues, entry
from tests.memory_queue_store import MemoryQueueStore

#: Clients, and the limits that each has as long as it lives.
LIMITS = {
    "plenty": QueueLimits(1000, 1 << 20),
    "few": QueueLimits(3, 1 << 20),
    "small": QueueLimits(1000, 60, on_full=DROP_OLDEST),
    "refusing": QueueLimits(2, 1 << 20, on_full=REFUSE),
    "forgetting": QueueLimits(1000, 1 << 20, 2),
}
CLIENTS = list(LIMITS)


async def _model(clock: Clock) -> MemoryQueueStore:
    return MemoryQueueStore(clock)


class Machine(RuleBasedStateMachine):
    """One store, and the model beside it. Places are compared by the numbers of what lies there."""

    home: Backend
    request: pytest.FixtureRequest
    folder: Any

    def __init__(self) -> None:
        super().__init__()
        self.queues = Queues(self.home(self.request, self.folder))
        self.model = Queues(_model)
        self.number = 0
        self.touched = CLIENTS[0]
        #: The last entries that were given, to be given again.
        self.given: list[QueueEntry] = []

    def teardown(self) -> None:
        self.queues.close()
        self.model.close()

    def both(self) -> list[Queues]:
        return [self.queues, self.model]

    def places(self, queues: Queues, client: str, numbers: list[int]) -> list[int]:
        return [each.owed.serial for each in queues.read(client) if each.number in numbers]

    @rule(
        client=st.sampled_from(CLIENTS),
        sizes=st.lists(st.integers(0, 30), min_size=1, max_size=4),
        expires_s=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def append(self, client: str, sizes: list[int], expires_s: int) -> None:
        now_us = self.model.clock.wall_us()
        expires_us = now_us + expires_s * SECOND_US if expires_s else 0
        self.given = []
        for size in sizes:
            self.number += 3
            self.given.append(entry(self.number, b"p" * size, expires_us=expires_us, received_us=now_us))
        self.give(client)

    @rule(client=st.sampled_from(CLIENTS))
    def append_again(self, client: str) -> None:
        if self.given:
            self.give(client)

    def give(self, client: str) -> None:
        self.touched = client
        answers = []
        for queues in self.both():
            answer = queues.append(*self.given, client=client, limits=LIMITS[client])
            answers.append((answer.refused, [serial > 0 for serial in answer.serials]))
            kept = [serial for serial in answer.serials if serial]
            assert kept == sorted(set(kept))
        assert answers[0] == answers[1]

    @rule(client=st.sampled_from(CLIENTS), limit=st.integers(1, 3))
    def read(self, client: str, limit: int) -> None:
        self.touched = client
        one, other = ([each.number for each in queues.read(client, limit=limit)] for queues in self.both())
        assert one == other

    @rule(client=st.sampled_from(CLIENTS), number=st.integers(1, 40))
    def acknowledge(self, client: str, number: int) -> None:
        self.touched = client
        for queues in self.both():
            # Looking for its place reads it: then it is in flight, in both.
            queues.acknowledge(*self.places(queues, client, [3 * number]), client=client)

    @rule(client=st.sampled_from(CLIENTS), number=st.integers(1, 40))
    def release(self, client: str, number: int) -> None:
        for queues in self.both():
            queues.wait(queues.store.release(client, self.places(queues, client, [3 * number])))

    @rule(client=st.sampled_from(CLIENTS))
    def drop(self, client: str) -> None:
        for queues in self.both():
            queues.wait(queues.store.drop([client]))

    @rule()
    def pass_time(self) -> None:
        for queues in self.both():
            queues.clock.advance(SECOND_US)

    @rule()
    def sweep(self) -> None:
        for queues in self.both():
            queues.wait(queues.store.sweep(queues.clock.wall_us()))

    @rule()
    def reopen(self) -> None:
        self.queues.reopen()

    @invariant()
    def sizes_and_numbers_agree(self) -> None:
        sizes = [queues.wait(queues.store.size(self.touched)) for queues in self.both()]
        assert (sizes[0].messages, sizes[0].size_bytes) == (sizes[1].messages, sizes[1].size_bytes)
        assert len({queues.wait(queues.store.last(self.touched))[1] for queues in self.both()}) == 1


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in BACKENDS if name != "memory"])
def test_any_order_of_calls_leaves_what_the_model_has(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    class OfHome(Machine):
        home = staticmethod(BACKENDS[name])
        folder = tmp_path_factory.mktemp("queues")

    OfHome.request = request
    few = settings(
        max_examples=4 if name in SLOW else 10,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(OfHome, settings=few)
