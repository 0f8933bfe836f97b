"""What is decoded, encoded and matched: packets, subscriptions and topics, the same in every run.

Subscriptions come in sites of four:

    site/<n>/pump-00001/temp    literal     ┐
    site/<n>/pump-00002/temp    literal     │ a message of a pump reaches three of them,
    site/<n>/+/temp             wildcard    │ however many sites there are
    site/<n>/#                  wildcard    ┘

All topics have the same length, so that they can be cut out of one buffer without a list of places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.codec.rows import Shape
from holdfast.model.protocol import PUBLISH
from holdfast.wire.packets import Publish
from holdfast.wire.properties import NO_PROPERTIES, Properties, encode_properties

#: PUBLISH packets in one pipelined buffer: what 64 KB hold at 64 bytes of payload, about.
PACKETS = 700
#: Topics that the packets of one buffer go to.
BUFFER_TOPICS = 100
#: Topics of one pass over the matcher: more than fit into the first caches of a processor.
PASS_TOPICS = 5_000
TOPIC_BYTES = len(b"site/0000000/pump-00001/temp")
#: Subscriptions per client.
PER_CLIENT = 100
_PER_SITE = 4

PROPERTIES = Properties(
    message_expiry_interval=3600,
    content_type="application/json",
    user_properties=(("unit", "celsius"),),
)

Parts = tuple[int, bytes, int, bytes, bytes]


def pump_topic(site: int, pump: int) -> bytes:
    return b"site/%07d/pump-%05d/temp" % (site, pump)


def packets(shape: Shape) -> list[Publish]:
    """One buffer's worth of PUBLISH packets, as objects."""
    properties = PROPERTIES if shape.version == 5 else NO_PROPERTIES
    payload = bytes(range(64)) * (shape.payload_bytes // 64)
    return [
        Publish(
            pump_topic(i % BUFFER_TOPICS // 2, 1 + i % 2).decode(),
            payload,
            shape.qos,
            i + 1 if shape.qos else 0,
            properties=properties,
        )
        for i in range(PACKETS)
    ]


def parts(shape: Shape) -> list[Parts]:
    """The same packets, as what a broker holds of a message it forwards."""
    properties = encode_properties(PROPERTIES, PUBLISH) if shape.version == 5 else b""
    first = PUBLISH << 4 | shape.qos << 1
    return [(first, p.topic.encode(), p.packet_id, properties, p.payload) for p in packets(shape)]


def client_ids(size: int) -> list[str]:
    return [f"client-{i:07d}" for i in range(-(-size // PER_CLIENT))]


def filters(size: int) -> Iterator[bytes]:
    """`size` filters, site by site."""
    for i in range(size):
        site, place = divmod(i, _PER_SITE)
        if place < 2:
            yield pump_topic(site, place + 1)
        elif place == 2:
            yield b"site/%07d/+/temp" % site
        else:
            yield b"site/%07d/#" % site


def known_topics(size: int) -> bytes:
    """Topics of pumps that have a literal subscription, spread over all sites, one behind the other.

    Always about PASS_TOPICS of them; where there are fewer, they repeat.
    """
    chance = random.Random(size)
    sites = size // _PER_SITE
    chosen = chance.sample(range(2 * sites), min(PASS_TOPICS, 2 * sites))
    chosen *= PASS_TOPICS // len(chosen)
    return b"".join([pump_topic(place // 2, 1 + place % 2) for place in chosen])


def fresh_topics(size: int, turn: int, count: int) -> bytes:
    """Topics that only wildcards reach and that no other turn holds."""
    chance = random.Random(turn)
    sites = size // _PER_SITE
    first = 10 + turn * count
    return b"".join([pump_topic(chance.randrange(sites), first + i) for i in range(count)])
