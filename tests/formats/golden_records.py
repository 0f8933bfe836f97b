"""Golden bytes of what is on disk, laid out by hand from docs/formats.md.

They never change: a data folder written by any released version must stay readable. A new version of a record gets
cases of its own beside these.
"""

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.will import StoredWill
from holdfast.records.folder import DataFolder
from holdfast.records.generations import Generation, ZoneRecord
from holdfast.records.messages import StoredMessage
from holdfast.records.positions import AppliedMark, ShardHead
from holdfast.records.retained import RetainedRecord
from holdfast.records.session.assignments import DoneAssignments
from holdfast.records.session.groups import GroupRecord
from holdfast.records.session.numbers import LastNumber
from holdfast.records.session.progress import GivenOut, Progress, ProgressEntry
from holdfast.records.session.retained_progress import RetainedPlace, RetainedProgress
from holdfast.records.session.session_record import SessionRecord


def spaced(text: str) -> bytes:
    """Hexadecimal digits, with spaces and line ends where a reader wants them."""
    return bytes.fromhex("".join(text.split()))


#: 2023-11-14T22:13:20Z.
T = 1_700_000_000_000_000

PLAIN = StoredMessage(Message(b"a/b", b"21.5", 1, ClientId("dev"), T), T + 1, 7)
PLAIN_BYTES = spaced("""
    01  01  03 00  03 00  00 00 00 00  04 00 00 00
    01 40 1e 18 24 0a 06 00   07 00 00 00 00 00 00 00   00 40 1e 18 24 0a 06 00   00 00 00 00
    61 2f 62   64 65 76   32 31 2e 35
""")

#: QoS 2, retained, expires after 3,600 s, with a user property u = v, an umlaut in the client id.
FULL = StoredMessage(
    Message(
        b"t",
        b"\x00\xff",
        2,
        ClientId("ü"),
        T,
        retain=True,
        properties=spaced("02 00 00 0e 10  26 00 01 75 00 01 76"),
        expires_us=T + 3_600_000_000,
    ),
    T + 2,
    2**40,
)
FULL_BYTES = spaced("""
    01  0e  01 00  02 00  0c 00 00 00  02 00 00 00
    02 40 1e 18 24 0a 06 00   00 00 00 00 00 01 00 00   00 40 1e 18 24 0a 06 00   10 0e 00 00
    74   c3 bc   02 00 00 0e 10  26 00 01 75 00 01 76   00 ff
""")

#: Expires at once, which is not the same as never.
AT_ONCE = StoredMessage(Message(b"t", b"", 0, ClientId(""), 5, expires_us=6), 9, 1)
AT_ONCE_BYTES = spaced("""
    01  08  01 00  00 00  00 00 00 00  00 00 00 00
    09 00 00 00 00 00 00 00   01 00 00 00 00 00 00 00   05 00 00 00 00 00 00 00   00 00 00 00
    74
""")

MESSAGES = [
    ("plain", PLAIN, PLAIN_BYTES),
    ("every field", FULL, FULL_BYTES),
    ("expires at once", AT_ONCE, AT_ONCE_BYTES),
]

FOLDER = DataFolder(1, T, "0.1.0")
FOLDER_BYTES = spaced("01  01 00  00 40 1e 18 24 0a 06 00  05 00 30 2e 31 2e 30")

CEILING_US = T + 10_000_000
CEILING_BYTES = spaced("01  80 d6 b6 18 24 0a 06 00")

HEAD = ShardHead(T, 1000, 12)
HEAD_BYTES = spaced("01  00 40 1e 18 24 0a 06 00  e8 03 00 00 00 00 00 00  0c 00 00 00 00 00 00 00")

NUMBER = LastNumber(258, T)
NUMBER_BYTES = spaced("01  02 01 00 00 00 00 00 00") + T.to_bytes(8, "little")

APPLIED = AppliedMark(258, "L3")
APPLIED_BYTES = spaced("01  02 01 00 00 00 00 00 00  02 00 4c 33")

ZONE = ZoneRecord("machines", (1, 258), ("plant/#", "ä/+"), T)
ZONE_KEY = spaced("02  6d 61 63 68 69 6e 65 73")
ZONE_BYTES = spaced("""
    01  00 40 1e 18 24 0a 06 00
    02 00  01 00  02 01
    02 00  07 00 70 6c 61 6e 74 2f 23  04 00 c3 a4 2f 2b
""")

GENERATION = Generation(
    "m",
    2,
    "learned",
    {"streams": 1000, "thresholds": (20, -1), "note": "x"},
    T,
    (1, 258),
    T - 1,
    inherits=1,
    end_us=T + 5,
    last_serials=(7, 0),
)
GENERATION_KEY = spaced("03  6d  00  00 00 00 02")
GENERATION_BYTES = spaced("""
    01  02 00 00 00  01 00 00 00
    ff 3f 1e 18 24 0a 06 00   00 40 1e 18 24 0a 06 00   05 40 1e 18 24 0a 06 00
    07 00 6c 65 61 72 6e 65 64
    03 00
      04 00 6e 6f 74 65                       02  01 00 78
      07 00 73 74 72 65 61 6d 73              01  e8 03 00 00 00 00 00 00
      0a 00 74 68 72 65 73 68 6f 6c 64 73     03  02 00  14 00 00 00 00 00 00 00  ff ff ff ff ff ff ff ff
    02 00
      01 00  07 00 00 00 00 00 00 00
      02 01  00 00 00 00 00 00 00 00
""")

#: The same, taken in from elsewhere.
EDITED = GENERATION.in_edition(T + 9)
EDITED_BYTES = b"\x02" + GENERATION_BYTES[1:5] + bytes(4) + GENERATION_BYTES[9:] + spaced("09 40 1e 18 24 0a 06 00")

RETAINED = RetainedRecord(PLAIN, 258, T + 3)
RETAINED_KEY = spaced("01  61 00 62")
RETAINED_BYTES = spaced("01  02 01  03 40 1e 18 24 0a 06 00") + PLAIN_BYTES
EXPIRY_KEY = spaced("02  00 06 0a 24 18 1e 40 00  61 00 62")

CURSOR_ZONE = "machines"
CURSOR_DONE = {1: T, 258: T - 3}
#: 08 "machines" 02 | 01 and T zigzag | 257 and -3 zigzag | CRC-32
CURSOR_BODY = spaced("08 6d 61 63 68 69 6e 65 73  02  01  80 80 f2 81 83 89 85 06  81 02  05")
CURSOR_TEXT = "c1-CG1hY2hpbmVzAgGAgPKBg4mFBoECBRicnXc"

#: One message of the log and two retained ones, the second with identifiers.
PROGRESS = Progress(
    {0: T, 258: 1},
    [
        ProgressEntry(5, 1, 258, T + 1),
        ProgressEntry(6, 1, 0, 0, RetainedPlace(b"a/b", T + 3, ())),
        ProgressEntry(7, 1, 0, 0, RetainedPlace(b"c", 7, (1, 258))),
    ],
    513,
)
PROGRESS_BYTES = spaced("""
    02  01 02
    02 00   00 00  00 40 1e 18 24 0a 06 00   02 01  01 00 00 00 00 00 00 00
    03 00 00 00
      05 00  01  00   02 01  01 40 1e 18 24 0a 06 00
      06 00  01  01   03 40 1e 18 24 0a 06 00   03 00 00 00 61 2f 62   00 00
      07 00  01  01   07 00 00 00 00 00 00 00   01 00 00 00 63         02 00  01 00 00 00  02 01 00 00
""")
#: The same in version 3, which is what is written.
COMPACT_BYTES = spaced("""
    03  01 02
    02 00   00 00  00 40 1e 18 24 0a 06 00   02 01  01 00 00 00 00 00 00 00
    03 00 00 00
      36  05 00  02 01  01 40 1e 18 24 0a 06 00
      08  03 40 1e 18 24 0a 06 00   03 00 00 00 61 2f 62   00 00
      08  07 00 00 00 00 00 00 00   01 00 00 00 63         02 00  01 00 00 00  02 01 00 00
""")
#: Every shape of an entry: packet ids and shards as before and not, steps of each size, forward and back.
SHAPES = Progress(
    {},
    [
        ProgressEntry(1, 1, 0, 127),
        ProgressEntry(2, 2, 0, -1),
        ProgressEntry(65_535, 1, 0, 32_766),
        ProgressEntry(1, 1, 65_535, -2),
        ProgressEntry(2, 1, 65_535, 32_766),
        ProgressEntry(3, 2, 7, -3),
        ProgressEntry(4, 1, 7, T),
        ProgressEntry(5, 1, 7, T),
    ],
    0,
)
SHAPES_BYTES = spaced("""
    03  00 00
    00 00
    08 00 00 00
      00  7f
      01  80
      12  ff ff  ff 7f
      16  01 00  ff ff  00 80
      20  00 80 00 00
      25  07 00  ff 7f ff ff
      30  03 40 1e 18 24 0a 06 00
      00  00
""")
#: Without a retained message a progress was written as version 1.
LOGGED = Progress({0: T}, [ProgressEntry(5, 1, 258, T + 1)], 513)
LOGGED_BYTES = spaced("""
    01  01 02
    01 00   00 00  00 40 1e 18 24 0a 06 00
    01 00 00 00
      05 00  01   02 01  01 40 1e 18 24 0a 06 00
""")

#: Of a group with two open messages below what it has given out.
SHARED = Progress({0: T - 1, 258: T + 2}, [], 0, GivenOut({0: T + 9, 258: T + 9}, {(0, T), (258, T + 3)}))
SHARED_BYTES = spaced("""
    04  00 00
    02 00   00 00  09 40 1e 18 24 0a 06 00   02 01  09 40 1e 18 24 0a 06 00
    02 00 00 00
      30  00 40 1e 18 24 0a 06 00
      04  02 01  03
""")

WALK = RetainedProgress(T + 3, b"a/b", "ü".encode())
WALK_KEY = spaced("01  00 02 c3 bc  08  61 2f 23")
WALK_BYTES = spaced("01  03 40 1e 18 24 0a 06 00  03 00 00 00 61 2f 62  02 00 00 00 c3 bc")
#: In a cluster: as of a version of each vnode.
VERSIONED_WALK = RetainedProgress(T + 3, b"a/b", "ü".encode(), ((0, T + 3), (258, 5)))
VERSIONED_WALK_BYTES = (
    b"\x02" + WALK_BYTES[1:] + spaced("02 00   00 00  03 40 1e 18 24 0a 06 00   02 01  05 00 00 00 00 00 00 00")
)

GROUP = GroupRecord(T + 3, replaying=True, steal_after_us=30_000_000, unlisted=True)
GROUP_KEY = spaced("01  00 02 c3 bc  0a")
GROUP_BYTES = spaced("01  03  03 40 1e 18 24 0a 06 00  80 c3 c9 01 00 00 00 00")
MEMBER_KEY = spaced("01  00 02 c3 bc  0b  6d")

#: A member of a group that takes 258 messages at once; one without a share window is written as it always was.
SUBSCRIPTION_FILTER = b"$share/g/a/#"
SUBSCRIPTION_BYTES = spaced("01  01  02  00  07 00 00 00  03 40 1e 18 24 0a 06 00  00 00  03 00 00 00 61 2f 23")
WINDOW_BYTES = b"\x02" + SUBSCRIPTION_BYTES[1:] + spaced("02 01")
#: With the heads {1: 258, 3: 5}.
HEADS_BYTES = (
    b"\x03"
    + SUBSCRIPTION_BYTES[1:]
    + spaced("00 00  02 00  01 00  02 01 00 00 00 00 00 00  03 00  05 00 00 00 00 00 00 00")
)

_WILL = StoredWill(b"w", b"x", 1, retain=True, properties=b"", delay_s=258, expiry_s=-1)
_WILL_BYTES = "01 01  02 01 00 00  ff ff ff ff ff ff ff ff  01 00 00 00 77  00 00 00 00  01 00 00 00 78"
#: A session of a version that did not store its user, and a group.
UNOWNED = SessionRecord(expiry_s=258, disconnected_us=T, will=_WILL, cut_off=True, queue="redis", begun=7)
UNOWNED_BYTES = spaced(
    f"01  02 01 00 00  00 40 1e 18 24 0a 06 00  07  {_WILL_BYTES}  05 00 72 65 64 69 73  07 00 00 00 00 00 00 00"
)
OWNED = SessionRecord(expiry_s=258, disconnected_us=T, will=_WILL, cut_off=True, queue="redis", begun=7, user="\u00fc")
OWNED_BYTES = b"\x02" + UNOWNED_BYTES[1:] + spaced("02 00 c3 bc")
#: A session of clients without a user name.
ANONYMOUS = SessionRecord(expiry_s=258, disconnected_us=0, user="")
ANONYMOUS_BYTES = spaced("02  02 01 00 00  00 00 00 00 00 00 00 00  00  00 00")
#: A session of a cluster.
CLAIMED = SessionRecord(expiry_s=258, disconnected_us=0, user="\u00fc", revision=0x10001)
CLAIMED_BYTES = spaced("03  02 01 00 00  00 00 00 00 00 00 00 00  00  02 00 c3 bc  01 00 01 00 00 00 00 00")
ASSIGNMENTS = DoneAssignments(3, 0x10001, (0x10003, 0x20000))
ASSIGNMENTS_BYTES = spaced(
    "01  03 00  01 00 01 00 00 00 00 00  02 00 00 00  03 00 01 00 00 00 00 00  00 00 02 00 00 00 00 00"
)
