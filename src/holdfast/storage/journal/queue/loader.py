"""Opens a queue from its files, or says what is damaged.

1. The last complete state counts. All messages that it covers must be there, complete and in order: a message file that
   is shorter than its state says is damaged.
2. Messages behind the state were written before their state: complete ones are adopted if they continue where the state
   ends, and a torn one is cut off.
3. `lenient`: after a power loss without syncs, the newest state that the files confirm is used.
"""

import os
import re
from pathlib import Path
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.queued_message import queued_number
from holdfast.storage.journal.queue.message_file import (
    HEADER_BYTES,
    MESSAGE,
    MessageFile,
    read_header,
    scan,
)
from holdfast.storage.journal.queue.queue import JournalQueue
from holdfast.storage.journal.queue.serials import Serials
from holdfast.storage.journal.queue.state_file import QueueState, StateBackups, load_state_file
from holdfast.storage.journal.queue_folders import queue_hash, queue_id

_NAME: Final = re.compile(r"messages\.([0-9a-f]{8})\.log", re.ASCII)


def message_files(folder: Path) -> list[int]:
    """The numbers of the message files, in order."""
    return sorted(int(match[1], 16) for match in map(_NAME.fullmatch, os.listdir(folder)) if match)


def open_queue(
    folder: Path,
    client_id: str,
    max_file_messages: int,
    backups: StateBackups,
    now_us: int,
    *,
    writable: bool = True,
    lenient: bool = False,
) -> JournalQueue:
    """PermanentError says what is damaged; FileNotFoundError: there is no such queue.

    Ensures: without `writable` nothing on disk is changed, and messages behind the state are not seen.
    """
    loaded = load_state_file(folder)
    if (loaded.queue_id, loaded.client_id) != (queue_id(client_id), client_id):
        raise PermanentError(f"{folder} is the queue of {loaded.client_id!r}, not of {client_id!r}")
    wrong: PermanentError | None = None
    for state in loaded.states:
        queue = JournalQueue(folder, client_id, max_file_messages, backups)
        try:
            _fill(queue, state, writable=writable)
        except PermanentError as error:
            queue.close()
            wrong = wrong or error
            if not lenient:
                break
            continue
        queue.is_new = False
        if writable:
            # A state that is not the newest is written again, to be the last one.
            queue.is_unsaved = wrong is not None
            _adopt(queue, state)
            queue.state_file.resume(loaded, queue.state(), now_us)
        return queue
    raise wrong or PermanentError(f"{folder} has no state")


def _fill(queue: JournalQueue, state: QueueState, *, writable: bool) -> None:
    """Requires: an empty queue. Loads the messages that the state covers, and no others."""
    folder, owner = queue.folder, queue_hash(queue.client_id)
    queue.done = Serials.parse(state.done)
    queue.released = Serials.parse(state.released)
    queue.given = state.given
    numbers = [number for number in message_files(folder) if state.read_file <= number <= state.write_file]
    for number, size_bytes in ((state.read_file, state.read_byte), (state.write_file, state.write_byte)):
        if size_bytes and number not in numbers:
            raise PermanentError(f"messages.{number:08x}.log is not there, and the state speaks of it")
    for number in numbers:
        if number == state.write_file and not state.write_byte:
            continue
        path = folder / f"messages.{number:08x}.log"
        first_serial = read_header(path, number, owner)
        begin, skipped = HEADER_BYTES, 0
        if number == state.read_file:
            begin, skipped = state.read_byte or HEADER_BYTES, state.read_msg
        file = MessageFile(folder, number, first_serial, skipped=skipped, end_bytes=begin, writable=writable)
        _check_gap(queue, file.first_indexed if not queue.files else file.first_serial)
        queue.files.append(file)
        end_bytes = state.write_byte if number == state.write_file else path.stat().st_size
        for placed in scan(path, begin):
            if placed.offset >= end_bytes:
                break
            if placed.record.kind == MESSAGE and placed.record.serial != file.last_serial + 1:
                raise PermanentError(f"{path.name} has message {placed.record.serial} after {file.last_serial}")
            queue.index(file, placed)
        if file.end_bytes != end_bytes:
            raise PermanentError(
                f"{path.name} holds whole messages up to byte {file.end_bytes}, and has to hold them up to {end_bytes}"
            )
        if number == state.write_file and file.messages != state.write_msg:
            raise PermanentError(f"{path.name} holds {file.messages} messages, and its state says {state.write_msg}")
    _check_gap(queue, state.serial + 1)
    _settle(queue, state)


def _check_gap(queue: JournalQueue, next_serial: int) -> None:
    """Check that only acknowledged messages are missing between two files."""
    if queue.files and queue.done.after(queue.files[-1].last_serial + 1) < next_serial:
        last = queue.files[-1].last_serial
        raise PermanentError(f"messages after {last} and before {next_serial} are owed, and in no file")


def _settle(queue: JournalQueue, state: QueueState) -> None:
    """Set what follows from the state and the files."""
    queue.serial, queue.number, queue.commit = state.serial, max(state.number, queue.number), state.commit
    queue.front = queue.files[0].first_indexed if queue.files else state.serial + 1
    for serial in queue.done:
        file = queue.file_with(serial)
        if file is not None:
            queue.subtract_message(file, serial)
    queue.front = queue.done.after(queue.front)
    queue.done.forget_below(queue.front)
    queue.full = state.full
    queue.next_file = state.write_file + (1 if state.write_byte else 0)


def _adopt(queue: JournalQueue, state: QueueState) -> None:
    """Adopt what was written behind the state, cut off what is torn, and note unneeded files."""
    folder, owner = queue.folder, queue_hash(queue.client_id)
    adopted: list[MessageFile] = []
    if queue.files and queue.files[-1].number == state.write_file:
        last = queue.files[-1]
        if _adopt_records(queue, last):
            adopted.append(last)
        if last.path.stat().st_size > last.end_bytes:
            last.truncate(last.end_bytes)
    for number in message_files(folder):
        if any(file.number == number for file in queue.files):
            continue
        path = folder / f"messages.{number:08x}.log"
        if number >= queue.next_file:
            # Adopted or not, its name is in use until it is deleted.
            queue.next_file = number + 1
            file = _continuation(queue, path, number, owner)
            if file is not None:
                adopted.append(file)
                continue
        queue.drained.append(path)
    for file in adopted:
        # No commit file has them, so nothing else would make them durable.
        file.sync()
        queue.is_unsaved = True


def _continuation(queue: JournalQueue, path: Path, number: int, owner: bytes) -> MessageFile | None:
    """A file behind the state, if it continues where the queue ends."""
    try:
        first_serial = read_header(path, number, owner)
    except PermanentError:
        return None
    file = MessageFile(queue.folder, number, first_serial, end_bytes=HEADER_BYTES)
    if first_serial != queue.serial + 1:
        return None
    queue.files.append(file)
    if not _adopt_records(queue, file):
        queue.files.remove(file)
        return None
    file.truncate(file.end_bytes)
    return file


def _adopt_records(queue: JournalQueue, file: MessageFile) -> bool:
    taken = False
    for placed in scan(file.path, file.end_bytes):
        record = placed.record
        if record.kind == MESSAGE and not (
            record.serial == queue.serial + 1 and queued_number(record.value) > queue.number
        ):
            break
        queue.index(file, placed)
        queue.full = queue.full or record.kind != MESSAGE
        taken = True
    return taken
