"""What TBMQ's documentation says that it does for each message: one script call, with the reference, the value and its
time to live, the limit, and the last packet id. Written from that description, as the anchor of the comparison.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time

from bench.queues.workload import PAYLOAD_BYTES, client_name
from holdfast.storage.redis.connection_pool import RedisPool
from holdfast.storage.redis.options import RedisOptions

_SCRIPT = """
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
local packet = last % 65535 + 1
local newest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local score = newest[2] and tonumber(newest[2]) + 1 or packet
local key = KEYS[1] .. '_' .. packet
redis.call('ZADD', KEYS[1], score, key)
redis.call('SET', key, ARGV[1], 'EX', ARGV[2])
redis.call('SET', KEYS[2], packet)
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3])
if over > 0 then
  for _, old in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do
    redis.call('DEL', old)
    redis.call('ZREM', KEYS[1], old)
  end
end
return packet
"""
_SHA = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
#: Commands on their way together.
_IN_FLIGHT = 1_000
_PAYLOAD = b"x" * PAYLOAD_BYTES


def commands(clients: int, first: int, messages: int) -> list[tuple[bytes | int, ...]]:
    """One for each message from `first` on, client after client in turn, with its value as JSON."""
    found: list[tuple[bytes | int, ...]] = []
    for place in range(first, first + messages):
        name = client_name(place % clients)
        value = json.dumps(
            {
                "packetType": "PUBLISH",
                "payload": base64.b64encode(_PAYLOAD).decode(),
                "time": 1736333110026,
                "clientId": name,
                "retained": False,
                "packetId": place % 65_535 + 1,
                "topicName": "plant/hall/7/temperature",
                "qos": 1,
            }
        ).encode()
        keys = (f"{{{name}}}_messages".encode(), f"{{{name}}}_last_packet_id".encode())
        found.append((b"EVALSHA", _SHA.encode(), 2, *keys, value, 600, 100_000))
    return found


async def in_flight(url: str, clients: int, messages: int) -> float:
    """Messages per second, with many commands on their way."""
    pool = RedisPool(RedisOptions((url,)), url)
    try:
        await pool.run([(b"SCRIPT", b"LOAD", _SCRIPT.encode())], 60)
        began_s = time.perf_counter()
        for at in range(0, messages, _IN_FLIGHT):
            for reply in await pool.run(commands(clients, at, min(_IN_FLIGHT, messages - at)), 60):
                if isinstance(reply, Exception):
                    raise reply
        return messages / (time.perf_counter() - began_s)
    finally:
        await pool.close()
