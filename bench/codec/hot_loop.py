"""The loops that are timed: one pass over a buffer, or over a list, with nothing beside the work.

This module runs in two forms. Interpreted, each call into a compiled class crosses from one world to the
other, as it does for any caller outside the compiled group. Compiled into the same group as the packages
it calls (see `group_build`), it is as close to them as the broker's path of a message is meant to be.

Each loop returns a count, so that the work cannot be left out and can be checked.
"""

from holdfast.model.protocol import CLIENT
from holdfast.topics.filters import parse_filter
from holdfast.topics.matcher import Matcher
from holdfast.topics.route_cache import RouteCache
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Publish
from holdfast.wire.publish import PublishScan, frame_publish


def scan_buffer(framer: Framer, scan: PublishScan, buffer: bytes, version: int) -> int:
    """Frame and scan every PUBLISH in the buffer."""
    count = 0
    framer.feed(buffer)
    while framer.advance():
        scan.scan(framer.data, framer.first, framer.body, framer.end, version, CLIENT)
        count += 1
    return count


def decode_buffer(framer: Framer, buffer: bytes, version: int) -> int:
    """Decode every PUBLISH in the buffer to an object."""
    return len(decode_all(framer, buffer, version, CLIENT))


def encode_packets(packets: list[Publish], version: int) -> int:
    """Encode each packet from its object."""
    count = 0
    for packet in packets:
        count += len(encode(packet, version))
    return count


def frame_parts(parts: list[tuple[int, bytes, int, bytes, bytes]]) -> int:
    """Encode each packet from first byte, topic, packet id, encoded properties and payload."""
    count = 0
    for first, topic, packet_id, properties, payload in parts:
        count += len(frame_publish(first, topic, packet_id, properties, payload))
    return count


def route_buffer(framer: Framer, scan: PublishScan, cache: RouteCache[str, str], buffer: bytes, version: int) -> int:
    """Frame, scan and route every PUBLISH in the buffer; how many subscriptions they reach."""
    count = 0
    framer.feed(buffer)
    while framer.advance():
        data = framer.data
        scan.scan(data, framer.first, framer.body, framer.end, version, CLIENT)
        count += len(cache.route(data[scan.topic_start : scan.topic_end]).targets)
    return count


def route_topics(cache: RouteCache[str, str], topics: bytes, width: int) -> int:
    """Route topics of `width` bytes each. They are cut out here, as from a receive buffer: a fresh
    object each time, whose hash is not known yet."""
    count = 0
    for start in range(0, len(topics), width):
        count += len(cache.route(topics[start : start + width]).targets)
    return count


def match_topics(matcher: Matcher[str, str], topics: bytes, width: int) -> int:
    """The same without a cache."""
    count = 0
    for start in range(0, len(topics), width):
        count += len(matcher.match(topics[start : start + width]))
    return count


def subscribe_all(matcher: Matcher[str, str], filters: list[bytes], clients: list[str]) -> None:
    """Parse and subscribe each filter, by one client after the other."""
    turn = 0
    for raw in filters:
        client = clients[turn]
        matcher.subscribe(parse_filter(raw), client, client)
        turn += 1
        if turn == len(clients):
            turn = 0


def fill_cache(cache: RouteCache[str, str], filters: list[bytes], clients: list[str]) -> None:
    """The same for a matcher with a cache in front."""
    turn = 0
    for raw in filters:
        client = clients[turn]
        cache.subscribe(parse_filter(raw), client, client)
        turn += 1
        if turn == len(clients):
            turn = 0
