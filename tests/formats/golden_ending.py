"""Golden PINGREQ, PINGRESP, DISCONNECT and AUTH."""

from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.wire.packets import Auth, Disconnect, Pingreq, Pingresp
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden

PINGS = [
    # nothing follows
    Golden("PINGREQ", V31, CLIENT, bytes.fromhex("C0 00"), Pingreq()),
    Golden("PINGREQ", V311, CLIENT, bytes.fromhex("C0 00"), Pingreq()),
    Golden("PINGREQ", V5, CLIENT, bytes.fromhex("C0 00"), Pingreq()),
    Golden("PINGRESP", V31, SERVER, bytes.fromhex("D0 00"), Pingresp()),
    Golden("PINGRESP", V311, SERVER, bytes.fromhex("D0 00"), Pingresp()),
    Golden("PINGRESP", V5, SERVER, bytes.fromhex("D0 00"), Pingresp()),
]

DISCONNECTS = [
    # nothing follows
    Golden("DISCONNECT", V31, CLIENT, bytes.fromhex("E0 00"), Disconnect()),
    Golden("DISCONNECT", V311, CLIENT, bytes.fromhex("E0 00"), Disconnect()),
    Golden("DISCONNECT normal", V5, CLIENT, bytes.fromhex("E0 00"), Disconnect()),
    # reason
    Golden("DISCONNECT with will", V5, CLIENT, bytes.fromhex("E0 01 04"), Disconnect(0x04)),
    Golden("DISCONNECT taken over", V5, SERVER, bytes.fromhex("E0 01 8E"), Disconnect(0x8E)),
    Golden("DISCONNECT explicit normal", V5, CLIENT, bytes.fromhex("E0 01 00"), Disconnect(), shortest=False),
    # reason, no properties
    Golden(
        "DISCONNECT explicit normal, no properties",
        V5,
        CLIENT,
        bytes.fromhex("E0 02 00 00"),
        Disconnect(),
        shortest=False,
    ),
    Golden("DISCONNECT no properties", V5, SERVER, bytes.fromhex("E0 02 8B 00"), Disconnect(0x8B), shortest=False),
    Golden(
        "DISCONNECT full from a client",
        V5,
        CLIENT,
        bytes.fromhex(
            "E0 14"  # DISCONNECT, 20 bytes follow
            "00"  # reason: normal disconnection, written out because properties follow
            "12"  # 18 bytes of properties
            "11 FF FF FF FF"  # session expiry interval: never
            "1F 00 03 62 79 65"  # reason string "bye"
            "26 00 01 6B 00 01 76"  # user property "k": "v"
        ),
        Disconnect(
            0,
            Properties(session_expiry_interval=4_294_967_295, reason_string="bye", user_properties=(("k", "v"),)),
        ),
    ),
    Golden(
        "DISCONNECT full from a server",
        V5,
        SERVER,
        bytes.fromhex(
            "E0 16"  # DISCONNECT, 22 bytes follow
            "9D"  # reason: server moved
            "14"  # 20 bytes of properties
            "1C 00 02 73 32"  # server reference "s2"
            "1F 00 05 6D 6F 76 65 64"  # reason string "moved"
            "26 00 01 6B 00 01 76"  # user property "k": "v"
        ),
        Disconnect(0x9D, Properties(server_reference="s2", reason_string="moved", user_properties=(("k", "v"),))),
    ),
]

AUTHS = [
    # nothing follows: success
    Golden("AUTH success", V5, SERVER, bytes.fromhex("F0 00"), Auth()),
    # reason, no properties
    Golden("AUTH explicit success", V5, SERVER, bytes.fromhex("F0 02 00 00"), Auth(), shortest=False),
    Golden(
        "AUTH re-authenticate",
        V5,
        CLIENT,
        bytes.fromhex(
            "F0 06"  # AUTH, 6 bytes follow
            "19"  # reason: re-authenticate
            "04"  # 4 bytes of properties
            "15 00 01 6D"  # authentication method "m"
        ),
        Auth(0x19, Properties(authentication_method="m")),
    ),
    Golden(
        "AUTH success with a method",
        V5,
        SERVER,
        bytes.fromhex(
            "F0 06"  # AUTH, 6 bytes follow
            "00"  # reason: success, written out because properties follow
            "04"  # 4 bytes of properties
            "15 00 01 6D"  # authentication method "m"
        ),
        Auth(0, Properties(authentication_method="m")),
    ),
    *[
        Golden(
            f"AUTH full from a {side}",
            V5,
            sender,
            bytes.fromhex(
                "F0 16"  # AUTH, 22 bytes follow
                "18"  # reason: continue authentication
                "14"  # 20 bytes of properties
                "15 00 01 6D"  # authentication method "m"
                "16 00 02 AA BB"  # authentication data
                "1F 00 01 3F"  # reason string "?"
                "26 00 01 6B 00 01 76"  # user property "k": "v"
            ),
            Auth(
                0x18,
                Properties(
                    authentication_method="m",
                    authentication_data=b"\xaa\xbb",
                    reason_string="?",
                    user_properties=(("k", "v"),),
                ),
            ),
        )
        for side, sender in (("client", CLIENT), ("server", SERVER))
    ],
]
