"""What is measured, under which key, and how it is called."""

from __future__ import annotations

#: Homes, and what they are called.
BACKENDS = {
    "journal": "journal files, fsync",
    "redis": "Redis",
    "cluster": "Redis Cluster, 3 masters",
    "postgres": "PostgreSQL",
}
#: TBMQ's algorithm on the same Redis: one script call for each message.
TBMQ = "tbmq"
TBMQ_LABEL = "one script call per message on the same Redis"

KINDS = {
    "awaited": "appended, each message awaited",
    "batched": "appended, gathered",
    "drained": "read and acknowledged",
}
#: Where queues are that a broker works with; the first is what others are compared with.
THROUGH = {
    "postgres": "PostgreSQL",
    "one_by_one": "Redis, one command after the other",
    "in_flight": "Redis",
    "cluster": "Redis Cluster, 3 masters",
    "log": "the log, no external queue",
}
#: Thousands of messages per second in TBMQ's own report.
REPORTED = {"postgres": 30, "one_by_one": 40, "in_flight": 60}
#: Who writes a queue to disk.
WRITERS = {
    "list": "a linked list in RocksDB",
    "journal": "journal files",
    "log": "the log, shared by all queues",
}
WRITTEN = {
    "bytes": "bytes written for a byte of payload",
    "compaction": "of them by compaction",
    "cpu_us": "CPU µs per message",
}


def keys(backends: list[str], clients: tuple[int, ...], pairs: tuple[int, ...]) -> list[str]:
    """Every key of a report, in order, for the backends that are there."""
    found = [f"{backend}/{count}/{kind}" for backend in backends for count in clients for kind in KINDS]
    for count in clients:
        if "journal" in backends:
            found.append(f"journal/{count}/syncs")
        if "redis" in backends:
            found += [f"redis/{count}/commands", f"{TBMQ}/{count}/batched", f"{TBMQ}/{count}/commands"]
    needed = {"postgres": "postgres", "one_by_one": "redis", "in_flight": "redis", "cluster": "cluster"}
    there = [name for name in THROUGH if needed.get(name, "journal") in backends]
    found += [f"through/{name}/{count}" for name in there for count in pairs]
    return [*found, *[f"written/{writer}/{name}" for writer in WRITERS for name in WRITTEN]]
