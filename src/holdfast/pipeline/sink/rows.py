"""Rows of a DataFrame as messages.

    topic     needed, a string                content_type, response_topic      strings
    payload   needed, binary or a string      correlation_data                  binary
    qos       a whole number                  user_properties                   a map of strings
    retain    true or false                   message_expiry_s                  a whole number

Columns that are not needed may be missing, and null in a row: then the options say.

1. Any other column is an error, unless rows are ordered by it: its name may have been mistyped.
2. A row that cannot be a message is an error which names its topic.
3. The number that another writer gave a message is left out: it is not one of this writer's.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from holdfast.client.message import OutgoingMessage
from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.model.errors import MisuseError, PeerError, PermanentError, SettingsError
from holdfast.model.protocol import PUBLISH, QOS_2
from holdfast.pipeline.sink.write_options import WriteOptions
from holdfast.topics.names import check_topic_name
from holdfast.wire.properties import NO_PROPERTIES, Properties, check_response_topic, encode_property_list
from holdfast.wire.publish import RETAIN

TOPIC: Final = "topic"
PAYLOAD: Final = "payload"
_KINDS: Final[dict[str, tuple[type[DataType], ...]]] = {
    TOPIC: (StringType,),
    PAYLOAD: (BinaryType, StringType),
    "qos": (IntegralType,),
    "retain": (BooleanType,),
    "content_type": (StringType,),
    "response_topic": (StringType,),
    "correlation_data": (BinaryType,),
    "user_properties": (MapType,),
    "message_expiry_s": (IntegralType,),
}
_SHOWN: Final[dict[type[DataType], str]] = {IntegralType: "int", MapType: "map<string,string>"}
_PROPERTIES: Final = tuple(_KINDS)[4:]
#: Topics that were found valid; beyond that they are checked again.
_MAX_KNOWN_TOPICS: Final = 10_000


def check_write_schema(schema: StructType, order_by: Sequence[str] = ()) -> None:
    """SettingsError if rows of this schema are no messages."""
    names = schema.fieldNames()
    for needed in (TOPIC, PAYLOAD):
        if needed not in names:
            raise SettingsError(f"there is no column {needed!r}; a message needs it")
    for name in order_by:
        if name not in names:
            raise SettingsError(f"option orderBy: there is no column {name!r}; there are {', '.join(names)}")
    for field in schema.fields:
        kinds = _KINDS.get(field.name)
        if kinds is None:
            if field.name not in order_by:
                raise SettingsError(f"column {field.name!r} is no part of a message; there are {', '.join(_KINDS)}")
        elif not isinstance(field.dataType, kinds) or (
            isinstance(field.dataType, MapType)
            and not (
                isinstance(field.dataType.keyType, StringType) and isinstance(field.dataType.valueType, StringType)
            )
        ):
            right = " or ".join(_SHOWN.get(kind) or kind.typeName() for kind in kinds)
            raise SettingsError(f"column {field.name!r} has to be {right}, not {field.dataType.simpleString()}")


class RowEncoder:
    def __init__(self, options: WriteOptions, least_qos: int = 0) -> None:
        self._options: Final = options
        self._least_qos: Final = least_qos
        self._known: set[bytes] = set()

    def messages(self, batch: Any) -> Iterator[OutgoingMessage]:
        names = batch.schema.names
        topics = batch.column(TOPIC).cast(pa.binary()).to_pylist()
        payloads = batch.column(PAYLOAD).cast(pa.binary()).to_pylist()
        nothing = [None] * len(topics)
        qos, retain = (batch.column(name).to_pylist() if name in names else nothing for name in ("qos", "retain"))
        present = [name for name in _PROPERTIES if name in names]
        columns = [batch.column(name).to_pylist() for name in present]
        for row, topic in enumerate(topics):
            self._check_topic(topic)
            first = self._first(topic, qos[row], retain[row])
            values = {name: column[row] for name, column in zip(present, columns, strict=True)}
            yield OutgoingMessage(first, topic, self._properties(topic, values), payloads[row] or b"")

    def _check_topic(self, topic: bytes | None) -> None:
        if topic is None:
            raise PermanentError("a row has no topic (null)")
        if topic not in self._known:
            try:
                check_topic_name(topic)
            except PeerError as wrong:
                _refuse(topic, wrong.detail)
            if len(self._known) >= _MAX_KNOWN_TOPICS:
                self._known.clear()
            self._known.add(topic)

    def _first(self, topic: bytes, qos: int | None, retain: bool | None) -> int:
        if qos is None:
            qos = self._options.qos
        if not self._least_qos <= qos <= QOS_2:
            _refuse(topic, f"its QoS is {qos}; {self._least_qos} to {QOS_2} would be right")
        if retain is None:
            retain = self._options.retain
        return PUBLISH << 4 | qos << 1 | (RETAIN if retain else 0)

    def _properties(self, topic: bytes, values: dict[str, Any]) -> bytes:
        content_type, expiry_s = self._options.content_type, self._options.message_expiry_s
        if not values and content_type is None and expiry_s is None:
            return b""
        pairs = values.get("user_properties") or ()
        if any(text is None for _name, text in pairs):
            _refuse(topic, "a user property is null")
        properties = Properties(
            content_type=_first_of(values.get("content_type"), content_type),
            response_topic=values.get("response_topic"),
            correlation_data=values.get("correlation_data"),
            user_properties=tuple((name, text) for name, text in pairs if name != PUBLISH_NUMBER),
            message_expiry_interval=_first_of(values.get("message_expiry_s"), expiry_s),
        )
        try:
            if properties.response_topic is not None:
                check_response_topic(properties.response_topic.encode())
            return b"" if properties == NO_PROPERTIES else encode_property_list(properties, PUBLISH)
        except PeerError as wrong:
            _refuse(topic, wrong.detail)
        except MisuseError as wrong:
            _refuse(topic, str(wrong))


def _first_of(value: Any, default: Any) -> Any:
    return default if value is None else value


def _refuse(topic: bytes, why: str) -> NoReturn:
    raise PermanentError(f"the row with topic {topic.decode(errors='replace')!r} is no message: {why}")
