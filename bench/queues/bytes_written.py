"""One child process: how much is written for queues that are filled and drained once; prints the figures as JSON.

    python -m bench.queues.bytes_written <list | journal | log> <folder> <messages> <queues>

list      a linked list for each queue in RocksDB: one insert, three updates and one deletion for each message
journal   journal files
log       the log, in which a message lies once and reading it writes nothing but how far the reader has come

Every batch is synced. Bytes are those that the process handed to the system, compaction included.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import struct
import sys
import time
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from bench.queues.workload import client_name
from bench.storage.store import Store
from holdfast.durable.queues.queue_store import AppendBatch, QueueEntry, QueueLimits
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.node.system_clock import SystemClock
from holdfast.storage.journal.options import JournalOptions
from holdfast.storage.journal.store import JournalStore

PAYLOAD_BYTES = 512
_BATCH = 500
_POINTERS = struct.Struct(">QQ")


def main(arguments: list[str]) -> None:
    kind, folder, messages, queues = arguments[0], Path(arguments[1]), int(arguments[2]), int(arguments[3])
    before = _written_bytes()
    began_cpu_s = time.process_time()
    if kind == "list":
        compaction = write_list(folder, messages, queues)
    elif kind == "journal":
        compaction = asyncio.run(write_journal(folder, messages, queues))
    else:
        compaction = write_log(folder, messages)
    payload_bytes = messages * PAYLOAD_BYTES
    figures = {
        "bytes": (_written_bytes() - before) / payload_bytes,
        "compaction": compaction / payload_bytes,
        "cpu_us": (time.process_time() - began_cpu_s) * 1e6 / messages,
    }
    print(json.dumps(figures))


def _written_bytes() -> int:
    found = re.search(r"wchar: (\d+)", Path("/proc/self/io").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1])


def write_list(folder: Path, messages: int, queues: int) -> int:
    """Bytes that compaction wrote."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.enable_statistics()
    # As small as what is written here, so that levels fill as they do in years.
    options.set_write_buffer_size(4 << 20)
    store = Rdict(str(folder), options)
    synced = WriteOptions()
    synced.sync = True
    state = dict.fromkeys(range(queues), (1, 0))
    for start in range(0, messages, _BATCH):
        batch = WriteBatch(raw_mode=True)
        for place in range(start, min(start + _BATCH, messages)):
            queue = place % queues
            first, last = state[queue]
            if last:
                batch.put(_name(queue, last), _POINTERS.pack(last + 1, 0) + os.urandom(PAYLOAD_BYTES))
            batch.put(_name(queue, last + 1), _POINTERS.pack(0, 0) + os.urandom(PAYLOAD_BYTES))
            batch.put(b"q%d" % queue, _POINTERS.pack(first, last + 1))
            state[queue] = (first, last + 1)
        store.write(batch, synced)
    for start in range(0, messages, _BATCH):
        batch = WriteBatch(raw_mode=True)
        for place in range(start, min(start + _BATCH, messages)):
            queue = place % queues
            first, last = state[queue]
            assert store.get(_name(queue, first)) is not None
            batch.put(b"q%d" % queue, _POINTERS.pack(first + 1, last))
            batch.delete(_name(queue, first))
            state[queue] = (first + 1, last)
        store.write(batch, synced)
    store.flush()
    store.compact_range(None, None)
    found = re.search(r"rocksdb\.compact\.write\.bytes COUNT : (\d+)", options.get_statistics() or "")
    store.close()
    return int(found[1]) if found else 0


def _name(queue: int, place: int) -> bytes:
    return b"m" + _POINTERS.pack(queue, place)


def _message() -> Message:
    return Message(b"plant/hall/7", os.urandom(PAYLOAD_BYTES), 1, ClientId("gateway"), 1_700_000_000_000_000)


async def write_journal(folder: Path, messages: int, queues: int) -> int:
    store = await JournalStore.open(folder, SystemClock(), JournalOptions())
    limits = QueueLimits(100_000, 1 << 40)
    number = 0
    for start in range(0, messages, _BATCH):
        packs: dict[str, list[QueueEntry]] = {}
        for place in range(start, min(start + _BATCH, messages)):
            number += 1
            packs.setdefault(client_name(place % queues), []).append(QueueEntry(number, Owed(_message(), 1)))
        await store.append([AppendBatch(client_id, entries, limits) for client_id, entries in packs.items()])
    for queue in range(queues):
        after = 0
        while found := await store.read(client_name(queue), after, 5):
            after = found[-1].owed.serial
            await store.acknowledge([(client_name(queue), [each.owed.serial for each in found])])
    await store.close()
    return 0


def write_log(folder: Path, messages: int) -> int:
    store = Store(folder)
    for start in range(0, messages, _BATCH):
        store.write([_message() for _ in range(start, min(start + _BATCH, messages))], outstanding=8)
    store.wait()
    before = _written_bytes()
    store.compact()
    compaction = _written_bytes() - before
    store.close()
    return compaction


if __name__ == "__main__":
    main(sys.argv[1:])
