"""Measures decoding, encoding, and the way of a message from the buffer to its route."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.codec import hot_loop, rows, workload
from bench.codec.stopwatch import Effort, pass_us
from holdfast.topics.route_cache import RouteCache
from holdfast.wire.codec import encode
from holdfast.wire.framing import Framer
from holdfast.wire.publish import PublishScan

Measured = Iterator[tuple[str, float]]


def _expect(found: int, wanted: int) -> None:
    """A benchmark that measures the wrong thing must not pass silently."""
    if found != wanted:
        raise RuntimeError(f"a pass counted {found}, expected {wanted}")


def _buffer(shape: rows.Shape) -> bytes:
    return b"".join([encode(packet, shape.version) for packet in workload.packets(shape)])


def _framer(version: int) -> Framer:
    framer = Framer()
    framer.speak(version)
    return framer


def measure_decode(effort: Effort) -> Measured:
    for shape in rows.SHAPES:
        buffer = _buffer(shape)
        version = shape.version
        framer = _framer(version)
        scanner = PublishScan()
        scan = partial(hot_loop.scan_buffer, framer, scanner, buffer, version)
        decode = partial(hot_loop.decode_buffer, framer, buffer, version)
        _expect(scan(), workload.PACKETS)
        _expect(decode(), workload.PACKETS)
        yield f"decode/scan/{shape.key}", pass_us(scan, workload.PACKETS, effort)
        yield f"decode/object/{shape.key}", pass_us(decode, workload.PACKETS, effort)


def measure_encode(effort: Effort) -> Measured:
    for shape in rows.SHAPES:
        from_parts = partial(hot_loop.frame_parts, workload.parts(shape))
        from_objects = partial(hot_loop.encode_packets, workload.packets(shape), shape.version)
        wanted = len(_buffer(shape))
        _expect(from_parts(), wanted)
        _expect(from_objects(), wanted)
        yield f"encode/parts/{shape.key}", pass_us(from_parts, workload.PACKETS, effort)
        yield f"encode/object/{shape.key}", pass_us(from_objects, workload.PACKETS, effort)


def measure_route(effort: Effort) -> Measured:
    """Every topic of the buffer is in the cache and reaches three subscriptions."""
    shape = rows.ROUTE_SHAPE
    cache: RouteCache[str, str] = RouteCache()
    size = 10_000
    hot_loop.fill_cache(cache, list(workload.filters(size)), workload.client_ids(size))
    route = partial(hot_loop.route_buffer, _framer(shape.version), PublishScan(), cache, _buffer(shape), shape.version)
    _expect(route(), 3 * workload.PACKETS)
    yield rows.ROUTE_KEY, pass_us(route, workload.PACKETS, effort)
