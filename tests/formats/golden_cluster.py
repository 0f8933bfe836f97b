"""Golden bytes of records of a cluster, laid out by hand from docs/formats.md. They never change."""

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster import session_steps as steps
from holdfast.records.cluster.group_packs import (
    GroupMessage,
    GroupPack,
    GroupReport,
    MemberState,
    Reference,
    WorkResult,
)
from holdfast.records.cluster.items import (
    Assign,
    Border,
    ChangeSettings,
    Claim,
    Closed,
    DropGeneration,
    Expire,
    Holders,
    Horizon,
    Item,
    Lead,
    Level,
    MessageItem,
    ReadRegistration,
    Release,
    Resign,
    Tick,
    Unassign,
    WillDue,
)
from holdfast.records.cluster.record import ClusterRecord, SessionEntry
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from tests.formats.golden_records import T, spaced

CLUSTER = spaced("c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf")

_MESSAGE = Message(b"a/b", b"21.5", 1, ClientId("dev"), T)
_MESSAGE_BYTES = """
    01  01  03 00  03 00  00 00 00 00  04 00 00 00
    00 00 00 00 00 00 00 00   00 00 00 00 00 00 00 00   00 40 1e 18 24 0a 06 00   00 00 00 00
    61 2f 62   64 65 76   32 31 2e 35
"""
_ZONES = VnodeSettings(
    (
        VnodeZone("default", 2, "learned", {}),
        VnodeZone("p", 0x0102, "paged", {"n": 7}, (b"p/#",), store_qos0=True),
    ),
    (b"t/",),
)

#: Every item, and its bytes: kind, length, version, fields.
ITEMS: dict[str, tuple[Item, str]] = {
    "message": (MessageItem(1, _MESSAGE), f"01  38 00 00 00  01  01 00  00  {_MESSAGE_BYTES}"),
    "message with packet id, number and user": (
        MessageItem(0, _MESSAGE, packet_id=258, number=7, user="\u00fc"),
        f"01  46 00 00 00  01  00 00  07  02 01  07 00 00 00 00 00 00 00  02 00 c3 bc  {_MESSAGE_BYTES}",
    ),
    "claim": (
        Claim("c", 3, (0x0102, 2, 5), 0x10000),
        """10  29 00 00 00  01  01 00 63  03 00 00 00 00 00 00 00  03
           02 01 00 00 00 00 00 00  02 00 00 00  05 00 00 00 00 00 00 00  00 00 01 00 00 00 00 00""",
    ),
    "claim without conditions": (
        Claim("c", 3, None, None),
        "10  0d 00 00 00  01  01 00 63  03 00 00 00 00 00 00 00  00",
    ),
    "release": (Release("c", 3, goodbye=True), "11  0d 00 00 00  01  01 00 63  03 00 00 00 00 00 00 00  01"),
    "read": (ReadRegistration("c"), "12  04 00 00 00  01  01 00 63"),
    "will": (WillDue("c", 0x10000), "13  0c 00 00 00  01  01 00 63  00 00 01 00 00 00 00 00"),
    "expire": (Expire("c", T), "14  0c 00 00 00  01  01 00 63  00 40 1e 18 24 0a 06 00"),
    "closed": (Closed(2, 9), "20  0d 00 00 00  01  02 00 00 00  09 00 00 00 00 00 00 00"),
    "lead": (Lead(), "21  01 00 00 00  01"),
    "resign": (Resign(), "22  01 00 00 00  01"),
    "tick": (Tick(), "23  01 00 00 00  01"),
    "assign": (
        Assign("g", 258, T, "c", 0x10000),
        "30  19 00 00 00  01  01 00 67  02 01  00 40 1e 18 24 0a 06 00  01 00 63  00 00 01 00 00 00 00 00",
    ),
    "unassign": (Unassign("g", 258, T), "31  0e 00 00 00  01  01 00 67  02 01  00 40 1e 18 24 0a 06 00"),
    "border": (
        Border("p", 2, "paged", {"n": 7}, b"\x05\x06", T),
        """40  2b 00 00 00  01  01 00 70  02 00 00 00  00 40 1e 18 24 0a 06 00  05 00 70 61 67 65 64
           01 00  01 00 6e  01 07 00 00 00 00 00 00 00  02 00 00 00 05 06""",
    ),
    "drop": (DropGeneration("p", 2), "41  08 00 00 00  01  01 00 70  02 00 00 00"),
    "horizon": (Horizon(b"a/b", T), "42  10 00 00 00  01  03 00 00 00 61 2f 62  00 40 1e 18 24 0a 06 00"),
    "settings": (
        ChangeSettings(9, _ZONES),
        """50  51 00 00 00  01  09 00 00 00 00 00 00 00  01
           02 00
           07 00 64 65 66 61 75 6c 74  02 00  00  07 00 6c 65 61 72 6e 65 64  00 00  00 00
           01 00 70  02 01  01  05 00 70 61 67 65 64  01 00  01 00 6e  01 07 00 00 00 00 00 00 00
             01 00  03 00 00 00 70 2f 23
           01 00  02 00 00 00 74 2f""",
    ),
    "level": (Level(2), "51  03 00 00 00  01  02 00"),
    "holders": (Holders(9, (1, 3)), "52  13 00 00 00  01  09 00 00 00 00 00 00 00  02 00  01 00 00 00  03 00 00 00"),
}

#: Every step of a session, and its bytes behind kind and length.
STEPS: dict[str, tuple[StepItem, str]] = {
    "keep session": (StepItem(0, steps.KEEP_SESSION, value=b"v"), "01  00 00  01  01 00 00 00 76"),
    "drop session": (StepItem(1, steps.DROP_SESSION), "01  01 00  02"),
    "keep progress": (StepItem(0, steps.KEEP_PROGRESS, value=b"v"), "01  00 00  03  01 00 00 00 76"),
    "keep subscription": (
        StepItem(0, steps.KEEP_SUBSCRIPTION, name=b"#", value=b"v"),
        "01  00 00  04  01 00 00 00 23  01 00 00 00 76",
    ),
    "drop subscription": (StepItem(0, steps.DROP_SUBSCRIPTION, name=b"#"), "01  00 00  05  01 00 00 00 23"),
    "keep replay": (
        StepItem(0, steps.KEEP_REPLAY, name=b"#", value=b"v"),
        "01  00 00  06  01 00 00 00 23  01 00 00 00 76",
    ),
    "keep retained progress": (
        StepItem(0, steps.KEEP_RETAINED, name=b"#", value=b"v"),
        "01  00 00  07  01 00 00 00 23  01 00 00 00 76",
    ),
    "drop retained progress": (StepItem(0, steps.DROP_RETAINED, name=b"#"), "01  00 00  08  01 00 00 00 23"),
    "keep group": (StepItem(0, steps.KEEP_GROUP, value=b"v"), "01  00 00  09  01 00 00 00 76"),
    "keep member": (StepItem(0, steps.KEEP_MEMBER, name=b"c"), "01  00 00  0a  01 00 00 00 63"),
    "drop member": (StepItem(0, steps.DROP_MEMBER, name=b"c"), "01  00 00  0b  01 00 00 00 63"),
    "keep in flight": (
        StepItem(0, steps.KEEP_INFLIGHT, packet_id=258, value=b"v"),
        "01  00 00  0c  02 01  01 00 00 00 76",
    ),
    "release in flight": (StepItem(0, steps.RELEASE_INFLIGHT, packet_id=258), "01  00 00  0d  02 01"),
    "drop in flight": (
        StepItem(0, steps.DROP_INFLIGHT, packet_id=258, shard=3, position_us=T),
        "01  00 00  0e  02 01  03 00  00 40 1e 18 24 0a 06 00",
    ),
    "keep incoming": (StepItem(0, steps.KEEP_INCOMING, packet_id=258), "01  00 00  0f  02 01"),
    "drop incoming": (StepItem(0, steps.DROP_INCOMING, packet_id=258), "01  00 00  10  02 01"),
    "keep assignments": (StepItem(0, steps.KEEP_ASSIGNMENTS, value=b"v"), "01  00 00  11  01 00 00 00 76"),
}

RECORD = ClusterRecord(
    CLUSTER,
    2,
    9,
    258,
    T,
    T + 1,
    [SessionEntry("c", 0x10000), SessionEntry("\u00fc", 0)],
    [Tick(), ReadRegistration("c")],
)
#: Without the check at its end.
RECORD_BYTES = spaced("""
    48 46 43 52  01  c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 ca cb cc cd ce cf  01 00
    02 00 00 00  09 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00
    00 40 1e 18 24 0a 06 00  01 40 1e 18 24 0a 06 00
    02 00
      01 00 63  00 00 01 00 00 00 00 00
      02 00 c3 bc  00 00 00 00 00 00 00 00
    02 00
      23  01 00 00 00  01
      12  04 00 00 00  01  01 00 63
""")
#: CRC-32 of the above.
RECORD_CHECK = "db 0a 78 4d"

#: Every row of the family `cluster`: its key and its value.
ROWS: dict[str, tuple[str, str]] = {
    "applied": ("01", "01  02 01 00 00 00 00 00 00  ef be ad de  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"),
    "clock": (
        "02",
        """01  00 40 1e 18 24 0a 06 00  01 40 1e 18 24 0a 06 00  02 00 00 00  02 40 1e 18 24 0a 06 00
           03 40 1e 18 24 0a 06 00  04 40 1e 18 24 0a 06 00""",
    ),
    "clock in doubt": (
        "02",
        """02  00 40 1e 18 24 0a 06 00  01 40 1e 18 24 0a 06 00  02 00 00 00  02 40 1e 18 24 0a 06 00
           03 40 1e 18 24 0a 06 00  04 40 1e 18 24 0a 06 00  fb 3f 1e 18 24 0a 06 00  02
           f8 3f 1e 18 24 0a 06 00  f9 3f 1e 18 24 0a 06 00  fa 3f 1e 18 24 0a 06 00  fb 3f 1e 18 24 0a 06 00""",
    ),
    "writer": ("03  00 00 00 02", "01  09 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00"),
    "closed": ("04  00 00 00 02  00 00 00 00 00 00 00 09", "01  00 40 1e 18 24 0a 06 00"),
    "leader": (
        "05",
        "01  02 00 00 00  09 00 00 00 00 00 00 00  00 00 01 00 00 00 00 00  00 40 1e 18 24 0a 06 00",
    ),
    "holders": ("06", "01  09 00 00 00 00 00 00 00  02 00  01 00 00 00  03 00 00 00"),
    "settings": ("07", "01  09 00 00 00 00 00 00 00  01  01 00  01 00 64  02 00  00  01 00 6c  00 00  00 00  00 00"),
    "level": ("08", "01  02 00"),
    "registration": (
        "09  c3 bc",
        """01  02 00 00 00  09 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  00 00 01 00 00 00 00 00
           02 01 00 00 00 00 00 00  02 00 00 00  05 00 00 00 00 00 00 00  00 40 1e 18 24 0a 06 00""",
    ),
    "assignment": (
        "0a  00 01 67  01 02  00 06 0a 24 18 1e 40 00",
        "01  01 00 63  00 00 01 00 00 00 00 00  00 00 02 00 00 00 00 00",
    ),
    "group progress": ("0b  00 01 67", "01  01 00  02 01  00 40 1e 18 24 0a 06 00"),
    "incarnation": ("0c", "01  02 00 c3 bc"),
    "newest version": ("0d", "01  00 68 e5 cf 8b 01 00 00  02 00 00 00  1f 00 00 00 01 00 00 00"),
}

#: What the keys of each table of vnode 258 begin with in the family `cluster`.
TABLES = {
    "state": "01 02  01",
    "meta": "01 02  02",
    "retained": "01 02  03",
    "sessions": "01 02  04",
}

REPORT = GroupReport(
    2,
    9,
    1,
    0x10000,
    5,
    3,
    258,
    0x20000,
    (
        MemberState("g", "c", 0x10001, 2, 258, 3, 7, {1: 258}, 1_000_000, T, ask=260),
        MemberState("g", "\u00fc", 0, 1, 0),
    ),
    4,
    (WorkResult("g", 3, T, True), WorkResult("g", 3, T + 1, False)),
)
REPORT_BYTES = spaced("""
    02  01  02 00 00 00  09 00 00 00 00 00 00 00  01 00  00 00 01 00 00 00 00 00
    05 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00  00 00 02 00 00 00 00 00
    02 00 00 00
      01 00 67  01 00 63  01 00 01 00 00 00 00 00  02  02 01  03 00  07 00 00 00 00 00 00 00
      01  01 00  01 00  02 01 00 00 00 00 00 00  40 42 0f 00 00 00 00 00  00 40 1e 18 24 0a 06 00
      04 01 00 00 00 00 00 00
      01 00 67  02 00 c3 bc  00 00 00 00 00 00 00 00  01  00 00  00 00  00 00 00 00 00 00 00 00
      00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
    04 00 00 00 00 00 00 00  02 00 00 00
      01 00 67  03 00  00 40 1e 18 24 0a 06 00  01
      01 00 67  03 00  01 40 1e 18 24 0a 06 00  02
""")
PACK = GroupPack(
    3,
    1,
    0x10000,
    9,
    3,
    258,
    7,
    (Reference("g", "c", 0x10001, 3, T),),
    (GroupMessage("g", "c", 0x10001, _MESSAGE),),
    (260,),
)
PACK_BYTES = spaced(f"""
    02  02  03 00 00 00  01 00  00 00 01 00 00 00 00 00  09 00 00 00 00 00 00 00
    03 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00  07 00 00 00 00 00 00 00
    01 00 00 00  01 00 67  01 00 63  01 00 01 00 00 00 00 00  03 00  00 40 1e 18 24 0a 06 00
    01 00 00 00  01 00 67  01 00 63  01 00 01 00 00 00 00 00  34 00 00 00  {_MESSAGE_BYTES}
    01 00 00 00  04 01 00 00 00 00 00 00
""")
#: Of a node that knows no questions.
PACK_BYTES_V1 = b"\x01" + PACK_BYTES[1:-12]
