"""Listeners as a whole: opened together or not at all, closed with a grace."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import SettingsError
from holdfast.server.listener_spec import ListenerSpec
from holdfast.server.listeners import open_listeners
from holdfast.server.sockets import listen
from tests.unit.server.certificates import Authority
from tests.unit.server.harness import RecordingHandler, dialled, echo, ipv6, listening, on_each_loop, spec, until_gone

FLOOD = bytes(32 * 1024 * 1024)


@on_each_loop
async def test_several_listeners_of_different_kinds_run_at_once(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    plain, secure = spec(name="plain"), spec(name="secure", kind="tls", **authority.server_files("first"))
    async with listening(handler, plain, secure) as listeners:
        assert listeners.addresses().keys() == {"plain", "secure"}
        async with dialled(listeners, "plain") as (reader, writer):
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
        async with dialled(listeners, "secure", ssl=authority.client(), server_hostname="localhost") as (
            reader,
            writer,
        ):
            writer.write(b"secret")
            assert await reader.readexactly(6) == b"secret"
    assert [(visit.origin.listener, visit.origin.transport) for visit in handler.visits] == [
        ("plain", "tcp"),
        ("secure", "tls"),
    ]


@ipv6
@on_each_loop
@pytest.mark.parametrize("host", ["::1", "::"])
async def test_ipv6_addresses_can_be_bound(host: str) -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(host=host)) as listeners, dialled(listeners, host="::1") as (reader, writer):
        writer.write(b"six")
        assert await reader.readexactly(3) == b"six"
        assert handler.visits[0].origin.address == "::1"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", listeners.addresses()["main"][1])


@ipv6
@on_each_loop
@pytest.mark.parametrize("host", ["localhost", "*"])
async def test_both_families_share_one_port(host: str) -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(host=host)) as listeners:
        assert listeners.addresses() == {"main": (host, listeners.addresses()["main"][1])}
        for address in ("127.0.0.1", "::1"):
            async with dialled(listeners, host=address) as (reader, writer):
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
    assert [visit.origin.address for visit in handler.visits] == ["127.0.0.1", "::1"]


@on_each_loop
async def test_a_port_in_use_is_named_with_a_remedy_and_nothing_is_left_open() -> None:
    handler = RecordingHandler()
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        port, other = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        specs = [spec(name="good", port=other), spec(name="bad", port=port)]
        with pytest.raises(SettingsError, match=rf"listener bad: 127\.0\.0\.1:{port}: it is in use; .*another port"):
            await open_listeners(specs, handler)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", other)


@on_each_loop
async def test_two_listeners_cannot_have_one_port() -> None:
    (sock,) = await listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    sock.close()
    with pytest.raises(SettingsError, match=r"listener second: .*in use"):
        await open_listeners([spec(name="first", port=port), spec(name="second", port=port)], RecordingHandler())


@on_each_loop
@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("192.0.2.1", r"192\.0\.2\.1:0: this machine has no such address"),
        ("2001:db8::1", r"\[2001:db8::1\]:0: this machine has no such address"),
        ("no.such.host.invalid", r"no\.such\.host\.invalid:0: the host is unknown"),
    ],
)
async def test_a_host_that_cannot_be_bound_is_named(host: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=rf"listener main: {problem}"):
        await open_listeners([spec(host=host)], RecordingHandler())


@on_each_loop
async def test_a_bad_certificate_opens_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(SettingsError, match=f"listener main: certificate {missing} cannot be read"):
        await open_listeners([spec(kind="tls", certificate=missing, key=missing)], RecordingHandler())


@on_each_loop
async def test_names_are_unique() -> None:
    with pytest.raises(SettingsError, match="listener main: there are 2"):
        await open_listeners([spec(), spec()], RecordingHandler())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"kind": "udp"}, "kind 'udp' is unknown; choose one of tcp, tls, ws, wss"),
        ({"port": 70000}, "port 70000 is out of range"),
        ({"kind": "tls"}, "tls needs certificate and key"),
        ({"kind": "wss", "certificate": Path("c")}, "wss needs certificate and key"),
        ({"certificate": Path("c")}, "tcp is not encrypted"),
        ({"kind": "ws", "client_ca": Path("c")}, "ws is not encrypted"),
        ({"crl": Path("c")}, "tcp is not encrypted"),
        ({"kind": "tls", "certificate": Path("c"), "key": Path("k"), "crl": Path("l")}, "crl needs client_ca"),
        (
            {"kind": "tls", "certificate": Path("c"), "key": Path("k"), "require_client_certificate": True},
            "require_client_certificate needs client_ca",
        ),
        ({"kind": "ws", "path": "mqtt"}, "path 'mqtt' has to begin with /"),
        ({"max_connections": 0}, "max_connections has to be at least 1"),
    ],
)
def test_an_impossible_listener_is_refused_with_what_would_be_right(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=f"listener main: {problem}"):
        ListenerSpec(**({"name": "main"} | fields))


@on_each_loop
async def test_close_stops_accepting_and_ends_connections_properly() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners, dialled(listeners) as (reader, writer):
        visit = await handler.visit()
        visit.link.write(b"last words")
        async with asyncio.TaskGroup() as closing:
            closing.create_task(listeners.close(grace_s=20))
            assert await reader.read() == b"last words"
            writer.close()
        assert visit.lost == 1
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*listeners.addresses()["main"])


@on_each_loop
async def test_close_cuts_off_who_is_still_there_after_the_grace() -> None:
    handler = RecordingHandler()
    async with listening(handler, spec()) as listeners:
        with socket.create_connection(listeners.addresses()["main"]):
            visit = await handler.visit()
            visit.link.write(FLOOD)
            await listeners.close(grace_s=0.01)
            assert visit.lost == 1


@on_each_loop
async def test_a_connection_that_was_accepted_while_closing_is_not_let_in() -> None:
    handler = RecordingHandler()
    listeners = await open_listeners([spec()], handler)
    connections = listeners.connections["main"]
    await connections.close(0)
    async with dialled(listeners) as (reader, _):
        assert await until_gone(reader) == b""
    await listeners.close(0)
    assert handler.visits == []
    assert connections.refused_full == 0
