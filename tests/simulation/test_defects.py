"""The simulations find what they are there for: each planted defect breaks a promise within a few seeds.

`make soak` looks at more seeds of every defect, from the first one on. When a simulation changes, so does what happens
under a seed: `python -m tests.simulation.test_defects` prints the first seed of each.
"""

import logging
import os
from collections.abc import Callable, Iterator

import pytest
import structlog

from tests.simulation import defects
from tests.simulation.seeded_cluster import ViolationError
from tests.simulation.simulations import SIMULATIONS

#: Seeds from the one that is known to find a defect.
FEW = 3
#: Seeds of a search, in `make soak`.
MANY = int(os.environ.get("HOLDFAST_SIMULATION_SEEDS", "0"))

#: What finds a defect: the simulation, and a seed.
FOUND: list[tuple[Callable[[pytest.MonkeyPatch], None], str, int]] = [
    (defects.acknowledged_when_appended, "messages", 7),
    (defects.acknowledged_by_another_vnode, "messages", 3),
    (defects.acknowledged_when_the_writer_is_closed, "messages", 4),
    (defects.delivered_waits_for_clients, "messages", 9),
    (defects.packet_id_is_a_step_of_its_own, "messages", 7),
    (defects.owners_are_not_compared, "messages", 50),
    (defects.repetitions_count, "messages", 4),
    (defects.sessions_are_opened_without_a_wait, "half open", 69),
    (defects.since_is_a_time, "subscriptions", 7),
    (defects.numbers_at_hand_decide, "numbers", 2),
    (defects.number_is_stored_apart, "numbers", 1),
    (defects.wills_are_published_by_their_nodes, "wills", 0),
    (defects.wills_of_closed_epochs_are_dropped, "wills", 5),
    (defects.wills_stay_when_they_are_published, "wills", 0),
    (defects.releases_wait_for_receipts, "wills", 102),
    (defects.claims_have_no_condition, "takeovers", 1),
    (defects.claims_without_outcome_stay, "takeovers", 13),
    (defects.claims_end_no_session, "takeovers", 3),
    (defects.retained_versions_are_positions, "retained", 448),
    (defects.removals_leave_nothing, "retained", 0),
    (defects.horizons_do_not_wait_for_members, "retained", 276),
    (defects.horizons_do_not_wait_for_time, "retained", 340),
    (defects.horizons_ignore_other_vnodes, "retained", 73),
    (defects.record_time_follows_one_writer, "clocks", 9),
    (defects.record_time_follows_the_stamps, "clocks", 14),
    (defects.record_time_stands_still_for_slow_clocks, "clocks", 185),
    (defects.leaps_of_record_time_are_forgotten, "clocks", 101281),
    (defects.groups_begin_when_their_leader_hears_of_them, "groups", 6),
    (defects.groups_that_list_a_member_confirm_it, "groups", 3382),
    (defects.progress_of_groups_passes_open_work, "groups", 75),
    (defects.done_assignments_are_forgotten, "groups", 4),
    (defects.places_are_assigned_again, "groups", 1),
]


@pytest.fixture(autouse=True)
def _no_log_lines() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


def first_violation(simulation: str, seeds: range) -> int | None:
    """The first seed that breaks a promise."""
    for seed in seeds:
        try:
            SIMULATIONS[simulation](seed).run()
        except ViolationError:
            return seed
    return None


@pytest.mark.parametrize(("plant", "simulation", "seed"), FOUND, ids=[plant.__name__ for plant, _name, _seed in FOUND])
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], simulation: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    found = first_violation(simulation, range(seed, seed + FEW))
    assert found is not None, f"{plant.__doc__} No seed from {seed} to {seed + FEW - 1} of {simulation!r} finds it"


if MANY:

    @pytest.mark.slow
    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize(
        ("plant", "simulation", "seed"), FOUND, ids=[plant.__name__ for plant, _name, _seed in FOUND]
    )
    def test_a_planted_defect_is_found_by_a_search(
        plant: Callable[[pytest.MonkeyPatch], None], simulation: str, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(monkeypatch)
        assert first_violation(simulation, range(seed + FEW, seed + FEW + MANY)) is not None, plant.__doc__


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for planted, name, _seed in FOUND:
        with pytest.MonkeyPatch.context() as patch:
            planted(patch)
            print(f"{planted.__name__:45} {name:10} {first_violation(name, range(300))}", flush=True)
