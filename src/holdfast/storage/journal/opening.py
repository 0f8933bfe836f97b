"""Opening a queue: from what its files hold to what is owed, or to the reason why that cannot be told.

1. The last whole state counts. Everything that it speaks of has to be there, whole and in order: a message file that is
   shorter than its state says is damage, and nobody guesses what was in it.
2. Messages behind what the state speaks of were written before a state could be: whole ones are adopted, if they go on
   where it ends, and what is torn is cut off.
3. `lenient`: the machine lost power, and nothing had been synced on purpose. Then the newest state that the files bear
   out is the state.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.model.errors import PermanentError
from holdfast.records.queued import queued_number
from holdfast.storage.journal.folders import queue_hash, queue_id
from holdfast.storage.journal.message_file import MessageFile, Placed, read_header, scan
from holdfast.storage.journal.message_records import HEADER_BYTES, MESSAGE
from holdfast.storage.journal.queue import JournalQueue
from holdfast.storage.journal.queue_state import QueueState
from holdfast.storage.journal.serials import Serials
from holdfast.storage.journal.state_file import Backups, load_state_file

_NAME: Final = re.compile(r"messages\.([0-9a-f]{8})\.log", re.ASCII)


def message_files(folder: Path) -> list[int]:
    """Their numbers, in order."""
    return sorted(int(match[1], 16) for match in map(_NAME.fullmatch, os.listdir(folder)) if match)


def open_queue(
    folder: Path,
    client_id: str,
    max_file_messages: int,
    backups: Backups,
    now_us: int,
    *,
    writable: bool = True,
    lenient: bool = False,
) -> JournalQueue:
    """PermanentError says what is damaged; FileNotFoundError: there is no such queue.

    Ensures: without `writable` nothing on disk is touched, and what no state speaks of is not seen.
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
            # A state that is not the newest has to be written down once more, to be the last one.
            queue.is_unsaved = wrong is not None
            _adopt(queue, state)
            queue.state_file.resume(loaded, queue.state(), now_us)
        return queue
    raise wrong or PermanentError(f"{folder} has no state")


def _fill(queue: JournalQueue, state: QueueState, *, writable: bool) -> None:
    """Requires: an empty queue. What the state speaks of, and not more."""
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
        for placed in _up_to(scan(path, begin), end_bytes):
            _check_serial(file, placed)
            queue.index(file, placed)
        if file.end_bytes != end_bytes:
            raise PermanentError(
                f"{path.name} holds whole messages up to byte {file.end_bytes}, and has to hold them up to {end_bytes}"
            )
        if number == state.write_file and file.messages != state.write_msg:
            raise PermanentError(f"{path.name} holds {file.messages} messages, and its state says {state.write_msg}")
    _check_gap(queue, state.serial + 1)
    _settle(queue, state)


def _up_to(records: Iterator[Placed], end_bytes: int) -> Iterator[Placed]:
    for placed in records:
        if placed.offset >= end_bytes:
            return
        yield placed


def _check_serial(file: MessageFile, placed: Placed) -> None:
    if placed.record.kind == MESSAGE and placed.record.serial != file.last_serial + 1:
        raise PermanentError(f"{file.path.name} has message {placed.record.serial} after {file.last_serial}")


def _check_gap(queue: JournalQueue, next_serial: int) -> None:
    """Between two files only such messages may be missing as are gone."""
    if queue.files and queue.done.after(queue.files[-1].last_serial + 1) < next_serial:
        last = queue.files[-1].last_serial
        raise PermanentError(f"messages after {last} and before {next_serial} are owed, and in no file")


def _settle(queue: JournalQueue, state: QueueState) -> None:
    """All that follows from the state and the files."""
    queue.serial, queue.number, queue.commit = state.serial, max(state.number, queue.number), state.commit
    queue.front = queue.files[0].first_indexed if queue.files else state.serial + 1
    for serial in queue.done:
        file = queue.file_with(serial)
        if file is not None:
            queue.take_out(file, serial)
    queue.front = queue.done.after(queue.front)
    queue.done.forget_below(queue.front)
    queue.full = state.full
    queue.next_file = state.write_file + (1 if state.write_byte else 0)


def _adopt(queue: JournalQueue, state: QueueState) -> None:
    """Take what was written behind the state, cut what is torn, and note files that nobody needs."""
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
            # Whether it is taken or not: its name is used up until it is deleted.
            queue.next_file = number + 1
            file = _continuation(queue, path, number, owner)
            if file is not None:
                adopted.append(file)
                continue
        queue.drained.append(path)
    for file in adopted:
        # No commit file speaks of them, so that nothing else would make them safe.
        file.sync()
        queue.is_unsaved = True


def _continuation(queue: JournalQueue, path: Path, number: int, owner: bytes) -> MessageFile | None:
    """A file that no state speaks of, if it goes on where the queue ends."""
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
