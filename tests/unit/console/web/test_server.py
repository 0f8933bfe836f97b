"""Sockets, TLS and limits, with real connections."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from holdfast.console.live.metrics_text import render_metrics
from holdfast.console.options import ConsoleOptions
from holdfast.console.web import server as server_module
from holdfast.console.web.server import MAX_CONNECTIONS, address_of, open_socket, serving
from holdfast.model.errors import SettingsError
from tests.unit.console.visitor import Place, console_place

Work = Callable[[Place, int], Awaitable[None]]


def run(work: Work, folder: Path, **options: Any) -> None:
    async def inside() -> None:
        async with console_place(folder, port=0, **options) as place:
            made = place.visitor.console.options
            with open_socket(made) as listening:
                async with serving(place.visitor.app, made, listening):
                    await work(place, listening.getsockname()[1])

    asyncio.run(inside())


async def say(port: int, data: bytes, context: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


def metrics(place: Place) -> str:
    return render_metrics((None, place.visitor.console.own_frame()), openmetrics=False)


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_it_answers_over_a_socket(tmp_path: Path) -> None:
    async def work(place: Place, port: int) -> None:
        answer = await say(port, HEALTH)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Content-Security-Policy" in answer
        assert b"server:" not in answer.lower().partition(b"\r\n\r\n")[0]

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000, b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 17_000 + b"\r\nConnection: close\r\n\r\n", b"431"),
        (b"garbage\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_request_is_answered_and_closed(tmp_path: Path, request_bytes: bytes, status: bytes) -> None:
    async def work(place: Place, port: int) -> None:
        answer = await say(port, request_bytes)
        assert answer.split(b" ")[1] == status, answer[:200]
        assert re.search(rf'requests_total{{route="(unknown|page)",code="{status.decode()}"}} 1\n', metrics(place))

    run(work, tmp_path)


def test_a_connection_beyond_the_limit_gets_503_and_others_go_on(tmp_path: Path) -> None:
    async def work(place: Place, port: int) -> None:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _count in range(MAX_CONNECTIONS)]
        ask = HEALTH.replace(b"Connection: close\r\n", b"")
        opened[0][1].write(ask)
        assert b'"ok":false' in await opened[0][0].readuntil(b"}")
        for _reader, writer in opened:
            writer.write(ask)
        for reader, _writer in opened:
            await reader.readuntil(b"}")
        answer = await say(port, HEALTH)
        assert b"503" in answer.split(b"\r\n")[0]
        assert b"close some tabs" in answer
        assert 'requests_total{route="unknown",code="503"} 1' in metrics(place)
        for _reader, writer in opened:
            writer.close()

    run(work, tmp_path)


def test_a_request_that_does_not_arrive_gets_408(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "ARRIVAL_S", 0.05)

    async def work(place: Place, port: int) -> None:
        for start in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n"):
            assert (await say(port, start)).startswith(b"HTTP/1.1 408 "), start
        assert 'requests_total{route="unknown",code="408"} 3' in metrics(place)

    run(work, tmp_path)


def test_tls_is_spoken_and_a_new_certificate_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_CERTIFICATE_S", 0.01)
    authorities = [trustme.CA(), trustme.CA()]
    certificate, key = tmp_path / "crt", tmp_path / "key"

    def issue(authority: trustme.CA) -> ssl.SSLContext:
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(str(key))
        certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    first = issue(authorities[0])

    async def work(place: Place, port: int) -> None:
        answer = await say(port, HEALTH, first)
        assert b"Strict-Transport-Security" in answer
        second = issue(authorities[1])
        for _try in range(500):
            try:
                assert await say(port, HEALTH, second)
                return
            except ssl.SSLError:
                await asyncio.sleep(0.01)
        raise AssertionError("the new certificate is not used")

    run(work, tmp_path, certificate=certificate, key=key)


def test_no_answer_waits_for_the_acknowledgement_of_another(tmp_path: Path) -> None:
    with (
        open_socket(ConsoleOptions(port=0, state_folder=tmp_path)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_named_with_the_command_that_helps(tmp_path: Path) -> None:
    with open_socket(ConsoleOptions(port=0, state_folder=tmp_path)) as taken:
        port = taken.getsockname()[1]
        options = ConsoleOptions(port=port, state_folder=tmp_path)
        with pytest.raises(SettingsError, match=f"--set console.port={port + 1}"):
            open_socket(options)
        assert address_of(taken, options) == f"http://127.0.0.1:{port}"


def test_a_certificate_that_does_not_fit_is_a_settings_error(tmp_path: Path) -> None:
    wrong = tmp_path / "pem"
    wrong.write_text("nothing")

    async def work(place: Place, port: int) -> None:
        raise AssertionError("it serves")

    with pytest.raises(SettingsError, match="certificate"):
        run(work, tmp_path, certificate=wrong, key=wrong)
