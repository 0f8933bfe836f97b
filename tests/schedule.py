"""In which order test processes side by side get the slow tests, and in which portions.

1. Files that take long are begun first, so that none of them runs alone when the other processes are through.
2. The tests of a file stay in one process, because they may share a server, a broker or a Java; those of `SPREAD` share
   nothing, and are handed out one by one.

Only the time that a run takes depends on this.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

#: The longest first, by name; files of the Spark stage and of the other slow tests, which run beside each other.
LONG = (
    "test_faults.py",
    "test_stream_kills.py",
    "test_simulation.py",
    "test_broker_kill.py",
    "test_audit.py",
    "test_standalone.py",
    "test_object_lakes.py",
    "test_object_lake_jobs.py",
    "test_registry_histories.py",
    "test_console_access.py",
    "test_time_machine_access.py",
    "test_console_clients.py",
    "test_copied_commands.py",
    "test_time_machine.py",
    "test_api_examples.py",
    "test_learn.py",
    "test_lake_replay.py",
    "test_node_processes.py",
    "test_nats_faults.py",
    "test_run.py",
    "test_installation.py",
    "test_journal_damage.py",
    "test_load.py",
    "test_driver_memory.py",
    "test_one_shard.py",
    "test_build.py",
    "test_soak.py",
    "test_archive_kills.py",
    "test_compaction_kills.py",
    "test_log.py",
    "test_segment_crash.py",
    "test_segments_in_log.py",
    "test_damage.py",
    "test_vnode_stores.py",
    "test_robustness.py",
    "test_retain.py",
    "test_stream_writer.py",
    "test_upsert_postgres.py",
    "test_archive.py",
    "test_tour.py",
    "test_stream_lag.py",
    "test_session.py",
    "test_endpoint.py",
    "test_connect.py",
    "test_examples.py",
    "test_relayout.py",
    "test_batch.py",
    "test_replay.py",
    "test_shell_examples.py",
    "test_spark_smoke.py",
    "test_parallel_smoke.py",
    "test_migrate.py",
    "test_spark_run_guide.py",
    "test_hand_over.py",
    "test_lane_plan.py",
    "test_cluster_smoke.py",
    "test_brokers_smoke.py",
    "test_stress_smoke.py",
    "test_console_process.py",
    "test_console_overview.py",
    "test_payload.py",
    "test_console_text.py",
    "test_refused_starts.py",
    "test_cluster_commands.py",
    "test_nats_damage.py",
    "test_history_process.py",
)
#: Folders whose tests share nothing.
SPREAD = ("tests/crash", "tests/interleavings", "tests/property", "tests/simulation")


def longest_first(items: list[pytest.Item]) -> None:
    """Ensures: files of LONG come first, in its order; the others stay in the order that chance gave them."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def portion(nodeid: str) -> str:
    """What is handed out together with this test: its file, or the test alone."""
    file = nodeid.partition("::")[0]
    return nodeid if any(PurePosixPath(file).is_relative_to(folder) for folder in SPREAD) else file


class PortionScheduling(LoadFileScheduling):  # type: ignore[misc]
    """`--dist loadfile`, by the rules of this module."""

    def _split_scope(self, nodeid: str) -> str:
        return portion(nodeid)


def scheduling(config: pytest.Config, log: object) -> PortionScheduling | None:
    """For `--dist loadfile`; None leaves it to pytest-xdist."""
    return PortionScheduling(config, log) if config.getoption("dist") == "loadfile" else None
