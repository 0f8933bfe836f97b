"""Reads the queues of a TBMQ 1.x, from its tables `device_session_ctx` and `device_publish_msg`. It changes nothing."""

from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg

from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.storage.postgres.connection import PostgresConnection
from holdfast.storage.tbmq import PUBLISHED, RELEASED, TbmqMessage, parse_user_properties, tbmq_message
from holdfast.wire.properties import Properties

_COLUMNS: Final = (
    "serial_number, packet_id, packet_type, topic, payload, qos, time, retain, msg_expiry_interval, user_properties, "
    "payload_format_indicator, content_type, response_topic, correlation_data"
)
_CLIENTS: Final = """
    SELECT client_id, max(serial_number) FROM device_publish_msg WHERE client_id > $1
    GROUP BY client_id ORDER BY client_id LIMIT 1000"""
_MESSAGES: Final = f"""
    SELECT {_COLUMNS} FROM device_publish_msg WHERE client_id = $1 AND serial_number > $2
    ORDER BY serial_number LIMIT $3"""


class TbmqPostgres:
    """One connection, for one import."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection: Final = connection

    @classmethod
    async def open(cls, url: str) -> "TbmqPostgres":
        """SettingsError if there is no TBMQ."""
        try:
            connection: PostgresConnection = await asyncpg.connect(url)
        except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise SettingsError(f"TBMQ's PostgreSQL cannot be read: {error}") from error
        there = "SELECT to_regclass('device_session_ctx') IS NOT NULL AND to_regclass('device_publish_msg') IS NOT NULL"
        if not await connection.fetchval(there):
            connection.terminate()
            raise SettingsError("this database has no tables device_session_ctx and device_publish_msg of a TBMQ 1.x")
        return cls(connection)

    async def clients(self) -> AsyncIterator[tuple[str, int]]:
        last = ""
        while rows := await self._fetch(_CLIENTS, last):
            for client_id, serial in rows:
                yield client_id, serial
            last = rows[-1][0]

    async def messages(self, client_id: str, after: int, limit: int) -> list[TbmqMessage]:
        return [_found(row) for row in await self._fetch(_MESSAGES, client_id, after, limit)]

    async def _fetch(self, query: str, *arguments: Any) -> list[Any]:
        try:
            return await self._connection.fetch(query, *arguments)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise TransientError(f"TBMQ's PostgreSQL: {error}") from error

    async def close(self) -> None:
        self._connection.terminate()


def _found(row: Any) -> TbmqMessage:
    serial, packet_id, kind, topic, payload, qos, time_ms, retain, expiry_s, user, *rest = row
    payload_format, content_type, response_topic, correlation_data = rest
    try:
        if kind not in (None, PUBLISHED, RELEASED):
            raise PermanentError(f"a packet of type {kind}")
        properties = Properties(
            payload_format_indicator=payload_format,
            # PostgreSQL's integers are signed, MQTT's are not.
            message_expiry_interval=None if expiry_s is None else expiry_s & 0xFFFF_FFFF,
            content_type=content_type,
            response_topic=response_topic,
            correlation_data=correlation_data,
            user_properties=parse_user_properties(user),
        )
        expires_us = 0
        if properties.message_expiry_interval is not None:
            # One microsecond distinguishes 0 seconds from never.
            expires_us = time_ms * 1000 + max(properties.message_expiry_interval * 1_000_000, 1)
        message = tbmq_message(
            topic, payload, qos, time_ms, retain=bool(retain), expires_us=expires_us, properties=properties
        )
    except HoldfastError as wrong:
        return TbmqMessage(serial, None, reason=f"message {serial}: {wrong}")
    return TbmqMessage(serial, message, expires_us, packet_id=packet_id or 0, released=kind == RELEASED)
