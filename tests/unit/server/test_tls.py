"""TLS: who is let in, under which name, and how certificates are replaced."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from holdfast.broker.connections.connection_handler import TLS_HANDSHAKE
from holdfast.model.errors import SettingsError
from holdfast.server.listeners import Listeners
from holdfast.server.stream import SocketLink
from holdfast.server.tls import load, verified_subject
from tests.unit.server.certificates import Authority
from tests.unit.server.harness import RecordingHandler, dialled, echo, listening, on_each_loop, spec, until_gone

FLOOD = bytes(16 * 1024 * 1024)


async def round_trip(listeners: Listeners, context: ssl.SSLContext) -> str:
    """Send and receive something; the common name of the server."""
    async with dialled(listeners, ssl=context, server_hostname="localhost") as (reader, writer):
        writer.write(b"secret")
        assert await reader.readexactly(6) == b"secret"
        name = verified_subject(writer.get_extra_info("peercert"))
        assert name is not None
        return name


@on_each_loop
async def test_bytes_go_both_ways_over_tls(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    async with listening(handler, spec(kind="tls", **authority.server_files("first"))) as listeners:
        await round_trip(listeners, authority.client())
        visit = await handler.visit()
        await visit.until_lost()
    assert visit.origin.transport == "tls"
    assert visit.origin.tls_subject is None
    assert visit.lost == 1


@on_each_loop
async def test_the_subject_of_a_verified_client_certificate_is_told(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    files = authority.server_files("first")
    main = spec(kind="tls", client_ca=authority.file, require_client_certificate=True, **files)
    async with listening(handler, main) as listeners:
        await round_trip(listeners, authority.client("sensor-7"))
    assert handler.visits[0].origin.tls_subject == "sensor-7"


@on_each_loop
@pytest.mark.parametrize("known", [True, False])
async def test_a_client_without_the_required_certificate_never_reaches_the_gate(
    authority: Authority, stranger: Authority, known: bool
) -> None:
    handler = RecordingHandler(echo)
    files = authority.server_files("first")
    client = authority.client() if known else authority.client("sensor-7", signed_by=stranger)
    main = spec(kind="tls", client_ca=authority.file, require_client_certificate=True, **files)
    async with listening(handler, main) as listeners:
        with pytest.raises((OSError, EOFError)):
            await round_trip(listeners, client)
    assert handler.visits == []


ALERTS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


async def alert_for(listeners: Listeners, context: ssl.SSLContext) -> str:
    """The alert that ends a connection of this client, at the handshake or right behind it."""
    with pytest.raises(ssl.SSLError) as caught:
        await round_trip(listeners, context)
    return caught.value.reason or ""


@on_each_loop
@pytest.mark.parametrize("version", ALERTS.values(), ids=ALERTS.keys())
async def test_a_client_whose_certificate_is_refused_gets_the_alert(
    authority: Authority, stranger: Authority, version: ssl.TLSVersion
) -> None:
    """It is told why, instead of a connection that is just gone."""
    handler = RecordingHandler(echo)
    files = authority.server_files("first")
    main = spec(kind="tls", client_ca=authority.file, require_client_certificate=True, **files)
    async with listening(handler, main) as listeners:
        for client, alerts in (
            (authority.client("sensor-7", signed_by=stranger), {"TLSV1_ALERT_UNKNOWN_CA"}),
            (authority.client(), {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"}),
        ):
            client.minimum_version = client.maximum_version = version
            assert await alert_for(listeners, client) in alerts
    assert handler.visits == []


@on_each_loop
async def test_a_client_with_nothing_in_common_gets_the_alert(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    client = authority.client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("AES128-SHA")
    async with listening(handler, spec(kind="tls", **authority.server_files("first"))) as listeners:
        assert await alert_for(listeners, client) == "SSLV3_ALERT_HANDSHAKE_FAILURE"


@on_each_loop
async def test_a_revoked_certificate_is_refused_from_the_reload_on(authority: Authority, tmp_path: Path) -> None:
    handler = RecordingHandler(echo)
    good, bad = authority.client("good"), authority.client("bad")
    crl = authority.revoke(tmp_path / "crl.pem")
    files = authority.server_files("first")
    main = spec(kind="tls", client_ca=authority.file, require_client_certificate=True, crl=crl, **files)
    async with listening(handler, main) as listeners:
        await round_trip(listeners, bad)
        authority.revoke(crl, "bad")
        await round_trip(listeners, bad)
        listeners.reload_certificates()
        assert await alert_for(listeners, bad) == "SSLV3_ALERT_CERTIFICATE_REVOKED"
        await round_trip(listeners, good)
        authority.revoke(crl, outdated=True)
        listeners.reload_certificates()
        assert await alert_for(listeners, good) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"
    assert [visit.origin.tls_subject for visit in handler.visits] == ["bad", "bad", "good"]


@on_each_loop
async def test_a_certificate_of_an_authority_without_a_revocation_list_is_refused(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    handler = RecordingHandler(echo)
    both = tmp_path / "both.pem"
    both.write_bytes(authority.file.read_bytes() + stranger.file.read_bytes())
    crl = authority.revoke(tmp_path / "crl.pem")
    files = authority.server_files("first")
    async with listening(handler, spec(kind="tls", client_ca=both, crl=crl, **files)) as listeners:
        await round_trip(listeners, authority.client("sensor-7"))
        assert await alert_for(listeners, authority.client("sensor-7", signed_by=stranger))
        await round_trip(listeners, authority.client())  # none was asked for


@on_each_loop
async def test_an_optional_certificate_is_optional_but_never_forged(authority: Authority, stranger: Authority) -> None:
    handler = RecordingHandler(echo)
    main = spec(kind="tls", client_ca=authority.file, **authority.server_files("first"))
    async with listening(handler, main) as listeners:
        await round_trip(listeners, authority.client())
        await round_trip(listeners, authority.client("sensor-7"))
        with pytest.raises((OSError, EOFError)):
            await round_trip(listeners, authority.client("sensor-7", signed_by=stranger))
    assert [visit.origin.tls_subject for visit in handler.visits] == [None, "sensor-7"]


@on_each_loop
async def test_a_peer_that_never_reads_stops_the_gate_over_tls_and_gets_all_in_the_end(authority: Authority) -> None:
    handler = RecordingHandler()
    piece = bytes(16 * 1024)
    main = spec(kind="tls", **authority.server_files("first"))
    async with (
        listening(handler, main) as listeners,
        dialled(listeners, ssl=authority.client(), server_hostname="localhost", limit=1024) as (reader, _),
    ):
        visit = await handler.visit()
        sent = 0
        while visit.writable:
            visit.link.write(piece)
            sent += len(piece)
            await asyncio.sleep(0)
        got = 0
        while not visit.writable:
            got += len(await reader.readexactly(1024))
        visit.link.close()
        assert got + len(await reader.read()) == sent


@on_each_loop
async def test_nothing_is_handed_over_between_pause_and_resume_over_tls(authority: Authority) -> None:
    handler = RecordingHandler(lambda visit, data: visit.link.pause_reading())
    main = spec(kind="tls", **authority.server_files("first"))
    async with (
        listening(handler, main) as listeners,
        dialled(listeners, ssl=authority.client(), server_hostname="localhost") as (_, writer),
    ):
        writer.write(FLOOD)
        visit = await handler.visit()
        while len(visit.received) < len(FLOOD):
            await visit.until(lambda: bool(visit.pieces))
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(visit.pieces) == 1
            visit.pieces.clear()
            visit.link.resume_reading()


@on_each_loop
async def test_calls_on_a_lost_tls_connection_do_nothing(authority: Authority) -> None:
    handler = RecordingHandler()
    main = spec(kind="tls", **authority.server_files("first"))
    async with listening(handler, main) as listeners:
        async with dialled(listeners, ssl=authority.client(), server_hostname="localhost"):
            visit = await handler.visit()
        await visit.until_lost()
        for call in (visit.link.pause_reading, visit.link.resume_reading, visit.link.close, visit.link.close):
            call()
        visit.link.write(b"into the void")
        assert isinstance(visit.link, SocketLink)
        visit.link.abort()
    assert visit.lost == 1


@on_each_loop
async def test_reloaded_certificates_serve_new_connections_and_leave_old_ones_alone(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    handler = RecordingHandler(echo)
    first, second = authority.server_files("first"), authority.server_files("second")
    present = {name: Path(shutil.copy(path, tmp_path / name)) for name, path in first.items()}
    trusted = Path(shutil.copy(authority.file, tmp_path / "ca"))
    main = spec(kind="tls", client_ca=trusted, require_client_certificate=True, **present)
    before, after = authority.client("old"), authority.client("new", signed_by=stranger)
    async with (
        listening(handler, main) as listeners,
        dialled(listeners, ssl=before, server_hostname="localhost") as (reader, writer),
    ):
        assert await round_trip(listeners, before) == "first"
        for name, path in second.items():
            shutil.copy(path, present[name])
        shutil.copy(stranger.file, trusted)
        listeners.reload_certificates()
        assert await round_trip(listeners, after) == "second"
        with pytest.raises((OSError, EOFError)):
            await round_trip(listeners, before)
        writer.write(b"still here")
        assert await reader.readexactly(10) == b"still here"


@on_each_loop
async def test_a_bad_file_keeps_the_old_certificate_and_does_not_hold_up_other_listeners(
    authority: Authority, tmp_path: Path
) -> None:
    handler = RecordingHandler(echo)
    first, second = authority.server_files("first"), authority.server_files("second")
    bad = {name: Path(shutil.copy(path, tmp_path / f"bad-{name}")) for name, path in first.items()}
    good = {name: Path(shutil.copy(path, tmp_path / f"good-{name}")) for name, path in first.items()}
    specs = [spec(name="main", kind="tls", **bad), spec(name="other", kind="tls", **good)]
    async with listening(handler, *specs) as listeners:
        bad["key"].write_text("garbage")
        for name, path in second.items():
            shutil.copy(path, good[name])
        with pytest.raises(SettingsError, match=rf"listener main: key {bad['key']} is no private key"):
            listeners.reload_certificates()
        assert await round_trip(listeners, authority.client()) == "first"
        async with dialled(listeners, "other", ssl=authority.client(), server_hostname="localhost") as (_, writer):
            assert verified_subject(writer.get_extra_info("peercert")) == "second"


def test_a_context_takes_nothing_older_than_tls_1_2(authority: Authority) -> None:
    context = load(spec(kind="tls", **authority.server_files("first")))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize("which", ["certificate", "key", "client_ca", "crl"])
@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda path: path.unlink(), "cannot be read: No such file", id="missing"),
        pytest.param(lambda path: path.write_text("garbage"), "PEM form", id="garbage"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe\0"), "PEM form", id="binary"),
        pytest.param(lambda path: path.write_bytes(b""), "PEM form", id="empty"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:200]), "PEM form", id="cut short"),
    ],
)
def test_a_bad_file_is_named_with_its_problem(
    authority: Authority, tmp_path: Path, which: str, damage: object, problem: str
) -> None:
    files = authority.server_files("first") | {"client_ca": authority.file, "crl": authority.revoke(tmp_path / "list")}
    copies = {name: Path(shutil.copy(path, tmp_path / name)) for name, path in files.items()}
    assert callable(damage)
    damage(copies[which])
    with pytest.raises(SettingsError, match=rf"listener main: {which} {copies[which]} .*{problem}"):
        load(spec(kind="tls", **copies))


def test_a_certificate_in_place_of_a_revocation_list_is_named(authority: Authority) -> None:
    files = authority.server_files("first")
    with pytest.raises(SettingsError, match=rf"crl {authority.file} holds no revocation list"):
        load(spec(kind="tls", **files, client_ca=authority.file, crl=authority.file))


def test_a_key_of_another_certificate_is_named(authority: Authority) -> None:
    first, second = authority.server_files("first"), authority.server_files("second")
    with pytest.raises(SettingsError, match=rf"key {second['key']} does not belong to .*{first['certificate']}"):
        load(spec(kind="tls", certificate=first["certificate"], key=second["key"]))


def test_an_encrypted_key_is_refused_instead_of_asking_for_its_passphrase(authority: Authority, tmp_path: Path) -> None:
    files = authority.server_files("first")
    key = load_pem_private_key(files["key"].read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"swordfish"))
    )
    with pytest.raises(SettingsError, match=f"key {locked} is encrypted"):
        load(spec(kind="tls", certificate=files["certificate"], key=locked))


@on_each_loop
async def test_a_failed_handshake_is_counted_and_told_with_address_and_reason(
    authority: Authority, stranger: Authority
) -> None:
    handler = RecordingHandler(echo)
    main = spec(
        kind="tls", client_ca=authority.file, require_client_certificate=True, **authority.server_files("first")
    )
    async with listening(handler, main) as listeners:
        reasons = []
        for client in (authority.client(), authority.client("sensor-7", signed_by=stranger)):
            with pytest.raises((OSError, EOFError)):
                await round_trip(listeners, client)
            listener, address, event, why = await handler.refusal()
            assert (listener, address, event) == ("main", "127.0.0.1", TLS_HANDSHAKE)
            reasons.append(why)
        async with dialled(listeners) as (reader, writer):
            writer.write(b"\x10\x0c\x00\x04MQTT: not TLS")
            await until_gone(reader)
        reasons.append((await handler.refusal())[3])
        async with dialled(listeners):
            pass
        reasons.append((await handler.refusal())[3])
        assert listeners.connections["main"].refused_tls == 4
        await round_trip(listeners, authority.client("sensor-7"))
    assert "CERTIFICATE" in reasons[0]
    assert reasons[1].startswith("the client's certificate: ")
    assert reasons[2] != ""
    assert reasons[3] == "the client closed the connection"
    assert handler.refusals == []


@on_each_loop
async def test_a_handshake_that_does_not_come_is_told_and_holds_a_place_no_longer(authority: Authority) -> None:
    handler = RecordingHandler(echo)
    files = authority.server_files("first")
    main = spec(kind="tls", max_connections=1, handshake_deadline_s=0.1, **files)
    async with listening(handler, main) as listeners:
        async with dialled(listeners) as (reader, _writer):
            await until_gone(reader)
            assert (await handler.refusal())[2] == TLS_HANDSHAKE
        await round_trip(listeners, authority.client())
