"""What is measured, under which key, and how it is called."""

from __future__ import annotations

#: Homes, and what they are called.
HOMES = {
    "memory": "memory",
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
#: Steps of TBMQ's own report, with the thousands of messages per second that it gives.
STEPS = {
    "postgres": ("PostgreSQL", 30),
    "one_by_one": ("Redis, one command after the other", 40),
    "in_flight": ("Redis, commands in flight together", 60),
}
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


def keys(homes: list[str], clients: tuple[int, ...]) -> list[str]:
    """Every key of a report, in order, for the homes that are there."""
    found = [f"{home}/{count}/{kind}" for home in homes for count in clients for kind in KINDS]
    for count in clients:
        if "journal" in homes:
            found.append(f"journal/{count}/syncs")
        if "redis" in homes:
            found += [f"redis/{count}/commands", f"{TBMQ}/{count}/batched", f"{TBMQ}/{count}/commands"]
    if "redis" in homes and "postgres" in homes:
        found += [f"steps/{name}" for name in STEPS]
    return [*found, *[f"written/{writer}/{name}" for writer in WRITERS for name in WRITTEN]]
