"""The columns of messages, by the names that readers see. Their Arrow types are in `arrow/message_batches.py`."""

from typing import Final

COLUMNS: Final = (
    "ts",
    "shard",
    "offset",
    "topic",
    "client_id",
    "qos",
    "retain",
    "payload",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_properties",
    "expires_at",
    "serial",
    "received_at",
    "properties",
)
