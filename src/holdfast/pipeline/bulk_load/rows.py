"""The work of a load in the workers of Spark: summarise rows, then encode them by the layout.

    rows, sorted by time ──▶ summarise ──▶ per shard: how many, from when; topics; what is wrong
                         ──▶ positions, serials ──▶ messages ──▶ the layout's keys and values

A position is a row's time, and one more than the one before it where that is not above it. For row i,
all that matters of the rows before it is max(time - number), their *reach*; so each stretch of rows can be numbered
alone once the reach of the rows before it is known.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from holdfast.history.arrow.buffer_slices import PADDING
from holdfast.history.arrow.property_columns import PropertyTable
from holdfast.model.errors import MisuseError, PeerError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.protocol import PUBLISH, QOS_2
from holdfast.model.time import SECOND_US
from holdfast.pipeline.bulk_load.lane_plan import UNSTORED, RowPlacement
from holdfast.pipeline.shipment.pair_batches import PairEmitter, record_batch_of
from holdfast.records.messages import encode_message
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure
from holdfast.topics.names import check_topic_name
from holdfast.wire.properties import NO_PROPERTIES, Properties, encode_property_list

#: A reach that is below every other.
NO_REACH: Final = -(2**62)
#: Kinds of rows that `summarise_stretch` gives.
SLOT: Final = 0
TOPIC: Final = 1
WRONG: Final = 2
SUMMARY: Final = pa.schema(
    [
        ("kind", pa.int32()),
        ("stretch", pa.int32()),
        ("slot", pa.int32()),
        ("messages", pa.int64()),
        ("reach", pa.int64()),
        ("first_us", pa.int64()),
        ("text", pa.binary()),
    ]
)
_MAX_CLIENT_ID_BYTES: Final = 65_535
_PROPERTIES: Final = ("content_type", "response_topic", "correlation_data", "user_properties")

Numbers = NDArray[np.int64]


class StretchBefore(NamedTuple):
    """What a worker has to know of the rows of a slot before its own: how many, and how far they reach."""

    messages: int
    reach: int


@dataclass(frozen=True)
class Layouts:
    """How all rows of a load are laid out; plain data, sent to every worker."""

    placing: RowPlacement
    #: By slot.
    structures: Mapping[int, LayoutStructure]
    after_serials: Mapping[int, int]
    #: By stretch and slot.
    stretches: Mapping[tuple[int, int], StretchBefore]


# ---- looking through


def summarise_stretch(batches: Iterable[Any], stretch: int, placing: RowPlacement, now_us: int) -> Iterator[Any]:
    """What a stretch holds, as rows of SUMMARY."""
    placed = _Positions({})
    topics: Counter[tuple[int, bytes]] = Counter()
    first_us: dict[int, int] = {}
    wrong = 0
    example = ""
    checked: dict[bytes, str] = {}
    for batch in batches:
        names, clients, times, qos = _columns(batch)
        slots = np.full(len(names), UNSTORED, np.int64)
        for row, topic in enumerate(names):
            why = checked.get(topic) if topic is not None else "it has no topic"
            if why is None:
                why = checked[topic] = _topic_fault(topic)
            why = why or _row_fault(clients[row], int(times[row]), qos[row], now_us)
            if why:
                wrong += 1
                example = example or f"the row on {(topic or b'').decode(errors='replace')!r}: {why}"
                continue
            slot = placing.of(topic, clients[row])
            slots[row] = slot
            topics[slot, topic] += 1
        placed.place(slots, times)
        for slot in np.unique(slots).tolist():
            first_us.setdefault(slot, int(times[slots == slot][0]))
    rows: list[tuple[object, ...]] = [
        (SLOT, stretch, slot, *placed.states[slot], first_us[slot], None) for slot in sorted(placed.states)
    ]
    rows += [(TOPIC, stretch, slot, count, 0, 0, topic) for (slot, topic), count in topics.items()]
    if wrong:
        rows.append((WRONG, stretch, UNSTORED, wrong, 0, 0, example.encode()))
    yield record_batch_of(rows, SUMMARY)


def _columns(batch: Any) -> tuple[list[Any], list[str], Numbers, list[Any]]:
    times = batch.column("ts").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    topics = batch.column("topic").cast(pa.binary()).to_pylist()
    return topics, batch.column("client_id").to_pylist(), times, batch.column("qos").to_pylist()


def _topic_fault(topic: bytes) -> str:
    try:
        check_topic_name(topic)
    except PeerError as error:
        return error.detail
    return ""


def _row_fault(client_id: str | None, time_us: int, qos: int | None, now_us: int) -> str:
    if time_us <= 0:
        return "it has no time after 1970"
    if time_us > now_us:
        return f"its time is {(time_us - now_us) // SECOND_US} s ahead of the present; only what is past can be loaded"
    if qos is None or not 0 <= qos <= QOS_2:
        return f"its QoS is {qos}; 0 to 2 would be right"
    if client_id is None or len(client_id.encode()) > _MAX_CLIENT_ID_BYTES:
        return "its client id is missing or too long"
    return ""


class _Positions:
    """Numbers and positions of rows, slot by slot."""

    def __init__(self, states: Mapping[int, StretchBefore]) -> None:
        self.states: Final = dict(states)

    def place(self, slots: Numbers, times: Numbers) -> tuple[Numbers, Numbers]:
        """The number of each row in its slot, from 0, and its position. Rows without a slot get any."""
        numbers = np.zeros(len(slots), np.int64)
        positions = np.zeros(len(slots), np.int64)
        for slot in np.unique(slots).tolist():
            mask = slots == slot
            messages, reach = self.states.get(slot, StretchBefore(0, NO_REACH))
            if slot == UNSTORED:
                self.states[slot] = StretchBefore(messages + int(mask.sum()), NO_REACH)
                continue
            own = messages + np.arange(int(mask.sum()), dtype=np.int64)
            reaches = np.maximum.accumulate(np.maximum(times[mask] - own, reach))
            numbers[mask] = own
            positions[mask] = own + reaches
            self.states[slot] = StretchBefore(messages + len(own), int(reaches[-1]))
        return numbers, positions


# ---- laying out


def lay_out_stretch(batches: Iterable[Any], stretch: int, layouts: Layouts) -> Iterator[Any]:
    """Keys and values of a stretch, as `PairEmitter` gives them."""
    states = {slot: state for (number, slot), state in layouts.stretches.items() if number == stretch}
    placed = _Positions(states)
    emitting = PairEmitter(layouts.structures)
    placing = layouts.placing
    for batch in batches:
        topics, clients, times, qos = _columns(batch)
        slots = np.fromiter(
            (placing.of(topics[row], clients[row]) for row in range(len(topics))), np.int64, len(topics)
        )
        numbers, positions = (found.tolist() for found in placed.place(slots, times))
        extras = _Extras(batch)
        payloads, retained = batch.column("payload").to_pylist(), batch.column("retain").to_pylist()
        for row, slot in enumerate(slots.tolist()):
            if slot == UNSTORED:
                continue
            received_us, expires_us, properties = extras.of(row, times)
            message = Message(
                topics[row],
                payloads[row],
                qos[row],
                ClientId(clients[row]),
                received_us,
                retain=retained[row],
                properties=properties,
                expires_us=expires_us,
            )
            value = encode_message(message, positions[row], layouts.after_serials[slot] + numbers[row] + 1)
            emitting.put(slot, topics[row], positions[row], value)
        yield from emitting.take()
    yield from emitting.finish()


class _Extras:
    """What a message may have besides, from the columns that there are."""

    def __init__(self, batch: Any) -> None:
        names = batch.schema.names
        self._columns: Final = {name: batch.column(name).to_pylist() for name in _PROPERTIES if name in names}
        self._received: Final = batch.column("received_at").to_pylist() if "received_at" in names else None
        self._expires: Final = batch.column("expires_at").to_pylist() if "expires_at" in names else None
        self._raw: Final = batch.column("properties").to_pylist() if "properties" in names else None
        if self._raw is not None:
            _check_properties(self._raw)

    def of(self, row: int, times: Numbers) -> tuple[int, int, bytes]:
        """When it was received, when it expires (0: never), and its properties as MQTT has them."""
        received_us = (self._received[row] if self._received else None) or int(times[row])
        expires_us = (self._expires[row] if self._expires else None) or 0
        if self._raw is not None and self._raw[row] is not None:
            return received_us, expires_us, self._raw[row]
        if not self._columns and not expires_us:
            return received_us, expires_us, b""
        given = {name: column[row] for name, column in self._columns.items() if column[row]}
        pairs = given.pop("user_properties", ())
        properties = Properties(
            **given,
            user_properties=tuple((str(name), str(text)) for name, text in pairs),
            message_expiry_interval=max(0, -(-(expires_us - received_us) // SECOND_US)) if expires_us else None,
        )
        try:
            return (
                received_us,
                expires_us,
                (b"" if properties == NO_PROPERTIES else encode_property_list(properties, PUBLISH)),
            )
        except (PeerError, MisuseError) as error:
            raise PermanentError(f"the properties of a row are none: {error}") from error


def _check_properties(column: list[bytes | None]) -> None:
    """PermanentError if a row's are none that a reader could take apart."""
    values = [value or b"" for value in column]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    data = np.frombuffer(b"".join([*values, PADDING]), np.uint8)
    damaged = PropertyTable(data, np.cumsum(lengths) - lengths, lengths).damaged
    if damaged >= 0:
        raise PermanentError(f"the column `properties` holds {values[damaged].hex()}, which no PUBLISH has")
