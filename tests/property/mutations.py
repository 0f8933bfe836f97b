"""Damaged packets: every outcome of decoding is a valid packet or a PeerError with a reason.

    python -m tests.property.mutations 1000000

runs as many cases as asked for, with progress, and prints how they ended. The test suite runs a small share.
Not a Hypothesis test, because a million cases want a loop that makes little but damage.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, settings

from holdfast.model.errors import PeerError
from holdfast.model.protocol import PUBLISH, V5
from holdfast.model.reasons import reason_name
from holdfast.wire.codec import decode, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Packet, Publish
from holdfast.wire.publish import PublishScan
from tests.property.packets import any_packet

Case = tuple[int, int, bytes]


def samples(count: int) -> list[Case]:
    """Valid packets of every kind to begin with: (version, sender, bytes)."""
    found: list[Case] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(any_packet)
    def collect(case: tuple[int, int, Packet]) -> None:
        version, sender, packet = case
        found.append((version, sender, encode(packet, version)))

    collect()
    return found


def systematic(case: Case) -> Iterator[bytes]:
    """Every truncation (with the length kept and made to fit) and every flip of one bit."""
    data = case[2]
    for length in range(len(data)):
        yield data[:length]
        if length >= 2 and data[1] < 0x80:
            yield bytes((data[0], length - 2)) + data[2:length]
    for i in range(len(data)):
        for bit in range(8):
            yield data[:i] + bytes((data[i] ^ 1 << bit,)) + data[i + 1 :]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One to four random changes: a byte set, inserted, removed, or a piece doubled."""
    out = bytearray(data)
    for _change in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        what = chance.randrange(4)
        if what == 0 and at < len(out):
            out[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif what == 1:
            out.insert(at, chance.randrange(256))
        elif what == 2 and at < len(out):
            del out[at]
        else:
            out[at:at] = out[at : at + chance.randrange(8)]
    if len(out) >= 2 and len(out) - 2 < 0x80 and chance.random() < 0.7:
        out[1] = len(out) - 2  # else most cases end at the length
    return bytes(out)


def outcome(data: bytes, version: int, sender: int) -> str:
    """How decoding ends; any exception but PeerError passes through, and is a bug."""
    framer = Framer(limit_bytes=1 << 20)
    framer.speak(version)
    try:
        framer.feed(data)
        if not framer.advance():
            return "incomplete"
        packet = decode(framer.data, framer.first, framer.body, framer.end, version, sender)
    except PeerError as error:
        if error.reason < 0x80 or not error.detail or reason_name(error.reason) == "Unknown reason":
            raise AssertionError(f"a refusal without a proper reason: {error}") from error
        check_scan_agrees(framer, version, sender, refused=error)
        return reason_name(error.reason)
    check_scan_agrees(framer, version, sender, refused=None)
    check_valid(packet, version, sender)
    return "valid"


def check_scan_agrees(framer: Framer, version: int, sender: int, *, refused: PeerError | None) -> None:
    """The scan of the hot path refuses no PUBLISH that the decoder takes, and takes none that it refuses."""
    if framer.first >> 4 != PUBLISH or framer.end == 0:
        return
    scan_refused: PeerError | None = None
    try:
        PublishScan().scan(framer.data, framer.first, framer.body, framer.end, version, sender)
    except PeerError as error:
        scan_refused = error
    if scan_refused is None:
        # What the scan leaves to the route cache is the topic alone.
        assert refused is None or "topic name" in refused.detail, refused
    else:
        assert refused is not None, scan_refused
        assert refused.reason == scan_refused.reason, (refused, scan_refused)


def check_valid(packet: Packet, version: int, sender: int) -> None:
    """What decoded is a packet that can be sent: encoding and decoding it again gives the same."""
    spoken = getattr(packet, "version", version)
    encoded = encode(packet, spoken)
    framer = Framer()
    framer.speak(spoken)
    framer.feed(encoded)
    assert framer.advance()
    assert decode(framer.data, framer.first, framer.body, framer.end, spoken, sender) == packet, packet
    assert not isinstance(packet, Publish) or packet.topic or version == V5


def main(cases: int, seed: int) -> None:
    counts: Counter[str] = Counter()
    chance = random.Random(seed)
    base = samples(2000)
    done = 0
    while done < cases:
        case = chance.choice(base)
        batch = systematic(case) if chance.random() < 0.2 else (damaged(case[2], chance) for _n in range(200))
        for data in batch:
            counts[outcome(data, case[0], case[1])] += 1
            done += 1
            if done % 50_000 == 0:
                print(f"\r{done:,} of {cases:,}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{done:,} damaged packets (seed {seed}): none raised anything but PeerError")
    for name, count in counts.most_common():
        print(f"  {count:>10,}  {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
