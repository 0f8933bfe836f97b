"""Golden bytes: every packet of every version is read and written exactly as the standards lay it out."""

from itertools import groupby

import pytest

from holdfast.model.protocol import CLIENT, V5, V31, V311, WILL
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connect, Packet, Pingreq, Pingresp
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden, decode_stream
from tests.formats.golden_acks import ACKS
from tests.formats.golden_connect import CONNACKS, CONNECTS
from tests.formats.golden_ending import AUTHS, DISCONNECTS, PINGS
from tests.formats.golden_publish import PUBLISHES
from tests.formats.golden_subscribe import SUBACKS, SUBSCRIBES, UNSUBACKS, UNSUBSCRIBES
from tests.formats.standard import PACKET_TYPES, PROPERTIES

pytestmark = pytest.mark.compiled

GOLDEN = [
    *CONNECTS,
    *CONNACKS,
    *PUBLISHES,
    *ACKS,
    *SUBSCRIBES,
    *SUBACKS,
    *UNSUBSCRIBES,
    *UNSUBACKS,
    *PINGS,
    *DISCONNECTS,
    *AUTHS,
]


def stream_of(case: Golden) -> tuple[int, int]:
    """The connection and direction that a case belongs to."""
    return case.version, case.sender


def properties_of(packet: Packet) -> Properties:
    assert not isinstance(packet, Pingreq | Pingresp)
    return packet.properties


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_golden_bytes_decode_to_their_packet(case: Golden) -> None:
    assert decode_stream(case.wire, case.version, case.sender) == [case.packet]


@pytest.mark.parametrize("case", [case for case in GOLDEN if case.shortest], ids=str)
def test_a_packet_encodes_to_its_golden_bytes(case: Golden) -> None:
    assert encode(case.packet, case.version) == case.wire


@pytest.mark.parametrize("case", [case for case in GOLDEN if not case.shortest], ids=str)
def test_a_longer_form_is_never_written(case: Golden) -> None:
    written = encode(case.packet, case.version)

    assert written != case.wire
    assert decode_stream(written, case.version, case.sender) == [case.packet]


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_every_packet_type_of_a_version_has_golden_bytes(version: int) -> None:
    covered = {case.wire[0] >> 4 for case in GOLDEN if case.version == version}

    assert covered == set(PACKET_TYPES.values()) - ({PACKET_TYPES["AUTH"]} if version != V5 else set())


@pytest.mark.parametrize("kind", ["Will", *PACKET_TYPES])
def test_every_property_has_golden_bytes_in_every_packet_that_carries_it(kind: str) -> None:
    number = WILL if kind == "Will" else PACKET_TYPES[kind]
    covered: set[str] = set()
    for case in GOLDEN:
        if kind == "Will" and isinstance(case.packet, Connect) and case.packet.will is not None:
            covered |= set(case.packet.will.properties.present())
        elif case.wire[0] >> 4 == number and not kind.startswith("PING"):
            covered |= set(properties_of(case.packet).present())

    assert covered == {row.name for row in PROPERTIES if kind in row.places}


def test_no_two_golden_cases_have_the_same_name() -> None:
    names = [str(case) for case in GOLDEN]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_golden_bytes_decode_the_same_however_the_network_cuts_them(step: int) -> None:
    small = [case for case in GOLDEN if len(case.wire) < 20_000]
    for (version, sender), group in groupby(sorted(small, key=stream_of), stream_of):
        cases = list(group)
        wire = b"".join(case.wire for case in cases)
        framer = Framer()
        framer.speak(version)
        packets: list[Packet] = []
        for start in range(0, len(wire), step):
            packets += decode_all(framer, wire[start : start + step], version, sender)

        assert packets == [case.packet for case in cases]
        assert framer.buffered_bytes() == 0


@pytest.mark.parametrize("case", CONNECTS, ids=str)
def test_a_connect_is_read_before_the_version_is_known(case: Golden) -> None:
    assert decode_all(Framer(), case.wire, 0, CLIENT) == [case.packet]
