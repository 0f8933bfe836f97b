"""The queue of one client: its files, and which of their messages are owed.

    serial        1   2   3   4   5   6   7   8
                ─ ✓ ─ ✓ ─ · ─ ✓ ─ · ┬ · ─ · ─ · ┐           ✓ gone
                          ↑ front   │           ↑ end
    messages.00000001.log ──────────┘           │
    messages.00000002.log ──────────────────────┘           state: read at 3, done = 4, write at the end of file 2

1. `front` is the first serial that is still owed, or the next one. `done` holds acknowledged serials above it.
2. Files are in the order of their serials. The last one is written to; it is full at `max_file_messages`.
3. A file without owed messages leaves the chain and is put into `drained`. It is deleted later, because a base in a
   commit file may still refer to it.
4. Memory and files change together: `apply` does a whole change, or raises and has done nothing.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.durable.queues.queue_store import QueueEntry, QueueSize
from holdfast.files.folders import make_folders
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.queued_message import decode_queued
from holdfast.storage.journal.queue.change import QueueChange
from holdfast.storage.journal.queue.message_file import MESSAGE, MessageFile, MessageRecord, PlacedRecord
from holdfast.storage.journal.queue.serials import Serials
from holdfast.storage.journal.queue.state_file import QueueState, StateBackups, StateFile, load_state_file
from holdfast.storage.journal.queue_folders import queue_hash

#: A file of this size is given up as soon as its queue is empty; a smaller one when the queue is idle.
DRAINED_BYTES: Final = 1 << 16


class JournalQueue:
    """Requires: one at a time for each folder. Not for several threads."""

    def __init__(self, folder: Path, client_id: str, max_file_messages: int, backups: StateBackups) -> None:
        self.folder: Final = folder
        self.client_id: Final = client_id
        self._hash: Final = queue_hash(client_id)
        self._max_file_messages: Final = max_file_messages
        self.state_file: Final = StateFile(folder, client_id, backups)
        self.files: Final[list[MessageFile]] = []
        self.next_file = 1
        self.serial = 0
        self.number = 0
        self.commit = 0
        self.full = False
        self.front = 1
        self.done: Serials = Serials()
        self.released: Serials = Serials()
        self.messages = 0
        self.size_bytes = 0
        #: A lower bound of all expiry times; 0 if no message expires.
        self.earliest_us = 0
        #: Whether the queue is not on disk yet, and whether the last state is not.
        self.is_new = True
        self.is_unsaved = False
        self._rotated = False
        #: Files that are not needed any more.
        self.drained: Final[list[Path]] = []
        #: The last serial that was read. Messages above it are waiting, and limits count those.
        self.given = 0
        self.waiting = 0
        self.waiting_bytes = 0

    # ---- what it holds

    def live(self) -> Iterator[tuple[MessageFile, int]]:
        """Every owed message, in order."""
        yield from self._live_from(self.front)

    def waiting_messages(self) -> Iterator[tuple[MessageFile, int]]:
        yield from self._live_from(max(self.given + 1, self.front))

    def _live_from(self, serial: int) -> Iterator[tuple[MessageFile, int]]:
        for file in self.files:
            if file.last_serial < serial:
                continue
            at = self.done.after(max(serial, file.first_indexed))
            while at <= file.last_serial:
                yield file, at
                at = self.done.after(at + 1)

    def file_of(self, serial: int) -> MessageFile | None:
        """The file of an owed message; None if it is not owed."""
        if not self.front <= serial <= self.serial or serial in self.done:
            return None
        return self.file_with(serial)

    def file_with(self, serial: int) -> MessageFile | None:
        """The file whose index has a serial, owed or not."""
        index = bisect_right(self.files, serial, key=lambda file: file.first_indexed) - 1
        return self.files[index] if index >= 0 and serial <= self.files[index].last_serial else None

    def serial_of(self, number: int) -> int:
        """The serial of a message by its number; 0 if it is not owed any more."""
        for file in reversed(self.files):
            serials = file.serials()
            if serials and file.number_of(serials[0]) <= number:
                at = bisect_right(serials, number, key=file.number_of) - 1
                serial = serials[at]
                return serial if file.number_of(serial) == number and self.file_of(serial) is not None else 0
        return 0

    def expired(self, now_us: int) -> list[int]:
        """The serials of expired messages that are not removed yet."""
        if not 0 < self.earliest_us <= now_us:
            return []
        return [serial for file, serial in self.live() if 0 < file.expiry_of(serial) <= now_us]

    def size(self, now_us: int) -> QueueSize:
        """Its size, without expired messages."""
        expired = self.expired(now_us)
        sizes = [file.size_of(serial) for serial in expired if (file := self.file_of(serial)) is not None]
        return QueueSize(self.messages - len(expired), self.size_bytes - sum(sizes))

    def read(self, after: int, limit: int, now_us: int) -> list[QueueEntry]:
        """PermanentError if a message is damaged."""
        found: list[QueueEntry] = []
        for file, serial in self._live_from(max(after + 1, self.front)):
            if len(found) >= limit:
                break
            if 0 < file.expiry_of(serial) <= now_us:
                continue
            owed, number, expires_us = decode_queued(file.read(serial).value, serial)
            found.append(QueueEntry(number, owed, expires_us, released=serial in self.released))
        if found:
            self._read_up_to(found[-1].owed.serial)
        return found

    def _read_up_to(self, serial: int) -> None:
        """Note the last serial that was read. It is stored with the next state, or on closing."""
        if serial <= self.given:
            return
        for file, passed in self.waiting_messages():
            if passed > serial:
                break
            self.waiting -= 1
            self.waiting_bytes -= file.size_of(passed)
        self.given = serial
        self.is_unsaved = True

    def state(self) -> QueueState:
        last_ones = (self.serial, self.number, self.given, self.commit)
        rest = (*last_ones, self.full, self.earliest_us, str(self.done), str(self.released))
        end = (self.next_file, 0, 0)
        if self.files:
            last = self.files[-1]
            end = (last.number, last.messages, last.end_bytes)
        file = self.file_of(self.front)
        place = end if file is None else (file.number, self.front - file.first_serial, file.offset_of(self.front))
        return QueueState._make((*place, *end, *rest))

    # ---- changing it

    def create(self) -> list[Path]:
        """Requires: it is new. Returns the folders that must be synced for it. Survives: a killed process."""
        changed = make_folders(self.folder)
        self.state_file.create(self.state())
        self.is_new = False
        return changed

    def apply(self, change: QueueChange) -> None:
        """Apply the part of a change that is not applied yet. OSError: nothing was done.

        Survives: a killed process, as something that opening adopts; `save` makes it the state.
        """
        records = [record for record in change.each_record() if record.kind != MESSAGE or record.serial > self.serial]
        self.append(records)
        self.number = max(self.number, change.number)
        for serial in Serials.parse(change.gone):
            self._remove(serial)
        for serial in Serials.parse(change.released):
            if self.file_of(serial) is not None:
                self.released.add(serial)
        self.full = change.full
        self._advance()
        self.is_unsaved = True

    def append(self, records: list[MessageRecord]) -> None:
        parts: list[tuple[MessageFile, list[MessageRecord]]] = []
        serial, file = self.serial, self.files[-1] if self.files else None
        room = self._max_file_messages - file.messages if file is not None else 0
        for record in records:
            if record.kind == MESSAGE and record.serial != serial + 1:
                raise PermanentError(f"after message {serial} comes {record.serial}: something between them is lost")
            serial = record.serial
            if file is None or (room <= 0 and record.kind == MESSAGE):
                first_serial = serial if record.kind == MESSAGE else serial + 1
                file = MessageFile(self.folder, self.next_file, first_serial)
                self.next_file += 1
                room = self._max_file_messages
            if not parts or parts[-1][0] is not file:
                parts.append((file, []))
            parts[-1][1].append(record)
            room -= 1
        written: list[tuple[MessageFile, int]] = []
        try:
            for file, own in parts:
                before = file.end_bytes
                begin = file.write(b"".join(record.encoded for record in own), self._hash)
                written.append((file, before))
                file.end_bytes = begin
        except OSError:
            self._undo(written)
            raise
        for file, own in parts:
            self._index(file, own)

    def _undo(self, written: list[tuple[MessageFile, int]]) -> None:
        for file, before in written:
            with suppress(OSError):
                if before:
                    file.truncate(before)
                else:
                    file.path.unlink()
            file.end_bytes = before

    def _index(self, file: MessageFile, records: list[MessageRecord]) -> None:
        if not self.files or self.files[-1] is not file:
            self._rotated = self._rotated or bool(self.files)
            if self.files:
                self.files[-1].close()
            self.files.append(file)
        for record in records:
            self.index(file, PlacedRecord(record, file.end_bytes))

    def index(self, file: MessageFile, placed: PlacedRecord) -> None:
        """Add a record that is on disk to the index."""
        file.add_to_index(placed)
        if placed.record.kind != MESSAGE:
            return
        serial = placed.record.serial
        self.serial = max(self.serial, serial)
        self.number = max(self.number, file.number_of(serial))
        self.messages += 1
        self.size_bytes += placed.record.size_bytes
        if serial > self.given:
            self.waiting += 1
            self.waiting_bytes += placed.record.size_bytes
        expires_us = file.expiry_of(serial)
        if expires_us:
            self.earliest_us = min(expires_us, self.earliest_us or expires_us)

    def _remove(self, serial: int) -> None:
        file = self.file_of(serial)
        if file is None:
            return
        self.subtract_message(file, serial)
        self.done.add(serial)
        self.released.discard(serial)

    def subtract_message(self, file: MessageFile, serial: int) -> None:
        """Remove a message from the counts."""
        size_bytes = file.size_of(serial)
        file.live -= 1
        self.messages -= 1
        self.size_bytes -= size_bytes
        if serial > self.given:
            self.waiting -= 1
            self.waiting_bytes -= size_bytes

    def _advance(self) -> None:
        """Move the front over acknowledged messages, and give up files without owed ones."""
        self.front = self.done.after(self.front)
        self.done.forget_below(self.front)
        if self.messages == 0:
            self.full = False
            self.earliest_us = 0
            if self.files and self.files[-1].end_bytes >= DRAINED_BYTES:
                self.give_up_files()
        if len(self.files) > 1:
            for file in [file for file in self.files[:-1] if file.live == 0]:
                self._let_go(file)

    def give_up_files(self) -> None:
        """Requires: nothing is owed."""
        if self.messages:
            raise MisuseError(f"the queue of {self.client_id!r} holds {self.messages} messages")
        for file in list(self.files):
            self._let_go(file)
        self.is_unsaved = True

    def _let_go(self, file: MessageFile) -> None:
        file.close()
        self.files.remove(file)
        self.drained.append(file.path)

    def find_earliest_expiry(self) -> None:
        """Find the next expiry time after expired messages were removed."""
        expiries = [file.expiry_of(serial) for file, serial in self.live() if file.expiry_of(serial)]
        self.earliest_us = min(expiries, default=0)

    # ---- the state on disk

    def save(self, now_us: int) -> None:
        """Write the state. Survives: a killed process."""
        if not self.is_unsaved:
            return
        state = self.state()
        if self._rotated:
            self.state_file.compact(state, now_us)
        else:
            self.state_file.append(state)
        self._rotated = self.is_unsaved = False

    def truncate_to_saved_state(self) -> None:
        """Requires: the queue is not used afterwards. Ensures: its files hold nothing beyond its saved state."""
        saved = next(load_state_file(self.folder).states)
        for file in self.files:
            if file.number == saved.write_file and saved.write_byte:
                file.truncate(saved.write_byte)
            elif file.number >= saved.write_file:
                file.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.state_file.close()
        for file in self.files:
            file.close()

    def check_invariants(self) -> None:
        live = list(self.live())
        assert len(live) == self.messages == sum(file.live for file in self.files)
        assert sum(file.size_of(serial) for file, serial in live) == self.size_bytes
        waiting = [file.size_of(serial) for file, serial in live if serial > self.given]
        assert (len(waiting), sum(waiting)) == (self.waiting, self.waiting_bytes)
        assert self.front not in self.done
        assert self.front == (live[0][1] if live else self.serial + 1)
        assert all(a.last_serial < b.first_serial for a, b in zip(self.files, self.files[1:], strict=False))
        assert all(serial in self.done or self.file_of(serial) for serial in self.released)
        assert not self.full or self.messages
