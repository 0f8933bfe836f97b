"""Golden bytes of records of the control log, laid out by hand from docs/formats.md. They never change."""

from holdfast.records.cluster import control_rows as rows
from holdfast.records.cluster.control import (
    EVENTUAL,
    Beat,
    ControlItem,
    ControlRecord,
    Fence,
    Found,
    Join,
    Leave,
    Snapshot,
    VnodeProgress,
)
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from tests.formats.golden_cluster import CLUSTER
from tests.formats.golden_records import T, spaced

FOLDER = spaced("f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 fa fb fc fd fe ff")
LIFE = spaced("10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f")
DIGEST = spaced("d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 da db dc dd de df")

FOUNDING = Found("p", (VnodeSettings((VnodeZone("d", 2, "l", {}),)),))
JOINING = Join("a", FOLDER, LIFE, 0x0102, 1, EVENTUAL, (("mqtt", "h:1"),))
#: As version 1 of a beat had it, and what version 2 has beside it.
BEATING = Beat((VnodeProgress(3, 2050, 2049, 2048, DIGEST),), 258, 7, ready=True)
BEATING_2 = Beat(
    (VnodeProgress(3, 2050, 2049, 2048, DIGEST, 259, leads=True),), 259, 7, reasons=("lag",), counts=(("n", 258),)
)

LEASED = LeaseItem("l", T, ((0, 5), (258, 7)))
ERASED = ErasureItem("c", b"", ((3, 9),), T, "o")

#: Every item, and its bytes: kind, length, version, fields.
ITEMS: dict[str, tuple[ControlItem, str]] = {
    "found": (
        FOUNDING,
        """60  1c 00 00 00  01  01 00 70  01 00
           12 00 00 00  01  01 00  01 00 64  02 00  00  01 00 6c  00 00  00 00  00 00""",
    ),
    "join": (
        JOINING,
        """61  3c 00 00 00  01  01 00 61  f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 fa fb fc fd fe ff
           10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  02 01 00 00 00 00 00 00  01 00  03
           01 00  04 00 6d 71 74 74  03 00 68 3a 31""",
    ),
    "beat": (
        BEATING_2,
        """62  4f 00 00 00  02  00  03 01 00 00  07 00 00 00  01 00
           03 00  02 08 00 00 00 00 00 00  01 08 00 00 00 00 00 00  00 08 00 00 00 00 00 00
           d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 da db dc dd de df  03 01 00 00  01
           01 00  03 00 6c 61 67  01 00  01 00 6e  02 01 00 00 00 00 00 00""",
    ),
    "beat of a node without vnodes": (
        Beat(),
        "62  10 00 00 00  02  00  00 00 00 00  00 00 00 00  00 00  00 00  00 00",
    ),
    "fence": (Fence(2, 9, 258), "63  15 00 00 00  01  02 00 00 00  09 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00"),
    "leave": (Leave(), "64  01 00 00 00  01"),
    "snapshot": (
        Snapshot(258, DIGEST, ((b"\x21\x00", b"v"), (b"k", b""))),
        """65  31 00 00 00  01  02 01 00 00 00 00 00 00  d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 da db dc dd de df
           02 00 00 00  02 00 00 00 21 00  01 00 00 00 76  01 00 00 00 6b  00 00 00 00""",
    ),
    "lease": (
        LEASED,
        """66  22 00 00 00  01  01 00 6c  00 40 1e 18 24 0a 06 00  02 00
           00 00  05 00 00 00 00 00 00 00  02 01  07 00 00 00 00 00 00 00""",
    ),
    "lease that was removed": (LeaseItem("l", T, ()), "66  0e 00 00 00  01  01 00 6c  00 40 1e 18 24 0a 06 00  00 00"),
    "erasure of a client": (
        ERASED,
        """67  1f 00 00 00  01  01 00 63  00 00 00 00  00 40 1e 18 24 0a 06 00  01 00 6f  01 00
           03 00  09 00 00 00 00 00 00 00""",
    ),
    "erasure of topics": (
        ErasureItem("", b"a/#", (), T, ""),
        "67  16 00 00 00  01  00 00  03 00 00 00 61 2f 23  00 40 1e 18 24 0a 06 00  00 00  00 00",
    ),
}

#: Bytes of earlier versions, which are read and not written any more.
EARLIER_ITEMS: dict[str, tuple[ControlItem, str]] = {
    "beat 1": (
        BEATING,
        """62  36 00 00 00  01  01  02 01 00 00  07 00 00 00  01 00
           03 00  02 08 00 00 00 00 00 00  01 08 00 00 00 00 00 00  00 08 00 00 00 00 00 00
           d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 da db dc dd de df""",
    ),
    "beat 1 of a node without vnodes": (Beat(), "62  0c 00 00 00  01  00  00 00 00 00  00 00 00 00  00 00"),
}

RECORD = ControlRecord(CLUSTER, 2, 9, 258, T, Leave())
#: Without the check at its end.
RECORD_BYTES = spaced("""
    48 46 43 52  01  c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf  01 00
    02 00 00 00  09 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00
    00 40 1e 18 24 0a 06 00  00 00 00 00 00 00 00 00
    00 00
    01 00
      64  01 00 00 00  01
""")
#: CRC-32 of the above.
RECORD_CHECK = "96 29 0a 16"

#: Every row of the control log: itself, its key and its value.
FOUNDED_ROW = rows.FoundedRow(1, CLUSTER, FOUNDING)
MEMBER_ROW = rows.MemberRow(9, JOINING, 258, rows.FENCED)
BEAT_ROW = rows.BeatRow(258, T, T + 1, Beat())
FOUNDED_BYTES = """
    01  01 00 00 00 00 00 00 00  c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf
    1c 00 00 00  01  01 00 70  01 00
      12 00 00 00  01  01 00  01 00 64  02 00  00  01 00 6c  00 00  00 00  00 00
"""
MEMBER_BYTES = """
    01  09 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00  01
    3c 00 00 00  01  01 00 61  f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 fa fb fc fd fe ff
      10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  02 01 00 00 00 00 00 00  01 00  03
      01 00  04 00 6d 71 74 74  03 00 68 3a 31
"""
BEAT_BYTES = """
    01  02 01 00 00 00 00 00 00  00 40 1e 18 24 0a 06 00  01 40 1e 18 24 0a 06 00
    10 00 00 00  02  00  00 00 00 00  00 00 00 00  00 00  00 00  00 00
"""
LEASE_BYTES = """
    01  22 00 00 00  01  01 00 6c  00 40 1e 18 24 0a 06 00  02 00
        00 00  05 00 00 00 00 00 00 00  02 01  07 00 00 00 00 00 00 00
"""
ERASURE_BYTES = """
    01  1f 00 00 00  01  01 00 63  00 00 00 00  00 40 1e 18 24 0a 06 00  01 00 6f  01 00
        03 00  09 00 00 00 00 00 00 00
"""
