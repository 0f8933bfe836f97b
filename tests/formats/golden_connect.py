"""Golden CONNECT and CONNACK."""

from holdfast.model.protocol import CLIENT, SERVER, V5, V31, V311
from holdfast.wire.packets import Connack, Connect, Will
from holdfast.wire.properties import Properties
from tests.formats.golden import Golden

CONNECTS = [
    Golden(
        "CONNECT minimal",
        V31,
        CLIENT,
        bytes.fromhex(
            "10 0F"  # CONNECT, 15 bytes follow
            "00 06 4D 51 49 73 64 70"  # protocol name "MQIsdp"
            "03"  # protocol level
            "02"  # flags: clean session
            "00 00"  # keep alive off
            "00 01 61"  # client id "a"
        ),
        Connect(V31, "a"),
    ),
    Golden(
        "CONNECT full",
        V31,
        CLIENT,
        bytes.fromhex(
            "10 24"  # CONNECT, 36 bytes follow
            "00 06 4D 51 49 73 64 70"  # protocol name "MQIsdp"
            "03"  # protocol level
            "EC"  # flags: user name, password, will retain, will QoS 1, will
            "00 3C"  # keep alive 60 s
            "00 03 64 65 76"  # client id "dev"
            "00 03 77 2F 74"  # will topic "w/t"
            "00 03 62 79 65"  # will payload "bye"
            "00 03 61 6E 6E"  # user name "ann"
            "00 02 70 77"  # password "pw"
        ),
        Connect(V31, "dev", False, 60, Will("w/t", b"bye", 1, True), "ann", b"pw"),
    ),
    Golden(
        "CONNECT with a user name flag and no user name",
        V31,
        CLIENT,
        bytes.fromhex(
            "10 0F"  # CONNECT, 15 bytes follow
            "00 06 4D 51 49 73 64 70"  # protocol name "MQIsdp"
            "03"  # protocol level
            "C2"  # flags: user name, password, clean session; the remaining length takes precedence over them
            "00 00"  # keep alive off
            "00 01 61"  # client id "a"; nothing behind it
        ),
        Connect(V31, "a"),
        shortest=False,
    ),
    Golden(
        "CONNECT with will QoS and will retain and no will",
        V31,
        CLIENT,
        bytes.fromhex(
            "10 0F"  # CONNECT, 15 bytes follow
            "00 06 4D 51 49 73 64 70"  # protocol name "MQIsdp"
            "03"  # protocol level
            "3B"  # flags: will retain, will QoS 3, clean session, bit 0; all but the third disregarded
            "00 00"  # keep alive off
            "00 01 61"  # client id "a"
        ),
        Connect(V31, "a"),
        shortest=False,
    ),
    Golden(
        "CONNECT minimal",
        V311,
        CLIENT,
        bytes.fromhex(
            "10 0D"  # CONNECT, 13 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "04"  # protocol level
            "00"  # flags: none, so the session goes on
            "00 00"  # keep alive off
            "00 01 61"  # client id "a"
        ),
        Connect(V311, "a", False),
    ),
    Golden(
        "CONNECT of a bridge",
        V31,
        CLIENT,
        bytes.fromhex(
            "10 0F"  # CONNECT, 15 bytes follow
            "00 06 4D 51 49 73 64 70"  # protocol name "MQIsdp"
            "83"  # protocol level 3, and the bit of a bridge
            "02"  # flags: clean session
            "00 00"  # keep alive off
            "00 01 62"  # client id "b"
        ),
        Connect(V31, "b", bridge=True),
    ),
    Golden(
        "CONNECT of a bridge",
        V311,
        CLIENT,
        bytes.fromhex(
            "10 0D"  # CONNECT, 13 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "84"  # protocol level 4, and the bit of a bridge
            "00"  # flags: none, so the session goes on
            "00 3C"  # keep alive 60 s
            "00 01 62"  # client id "b"
        ),
        Connect(V311, "b", False, 60, bridge=True),
    ),
    Golden(
        "CONNECT without a client id",
        V311,
        CLIENT,
        bytes.fromhex(
            "10 0C"  # CONNECT, 12 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "04"  # protocol level
            "02"  # flags: clean session, which an empty client id needs
            "FF FF"  # keep alive 65,535 s, the longest
            "00 00"  # client id ""
        ),
        Connect(V311, "", True, 65_535),
    ),
    Golden(
        "CONNECT with a user name alone",
        V311,
        CLIENT,
        bytes.fromhex(
            "10 10"  # CONNECT, 16 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "04"  # protocol level
            "82"  # flags: user name, clean session
            "00 0A"  # keep alive 10 s
            "00 01 61"  # client id "a"
            "00 01 75"  # user name "u"
        ),
        Connect(V311, "a", True, 10, None, "u"),
    ),
    Golden(
        "CONNECT full",
        V311,
        CLIENT,
        bytes.fromhex(
            "10 21"  # CONNECT, 33 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "04"  # protocol level
            "F6"  # flags: user name, password, will retain, will QoS 2, will, clean session
            "00 3C"  # keep alive 60 s
            "00 03 64 65 76"  # client id "dev"
            "00 03 77 2F 74"  # will topic "w/t"
            "00 02 00 FF"  # will payload, two bytes that are no text
            "00 03 61 6E 6E"  # user name "ann"
            "00 02 FF 00"  # password, two bytes that are no text
        ),
        Connect(V311, "dev", True, 60, Will("w/t", b"\x00\xff", 2, True), "ann", b"\xff\x00"),
    ),
    Golden(
        "CONNECT minimal",
        V5,
        CLIENT,
        bytes.fromhex(
            "10 0D"  # CONNECT, 13 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "05"  # protocol level
            "00"  # flags: none
            "00 00"  # keep alive off
            "00"  # no properties
            "00 00"  # client id "", allowed here without clean start
        ),
        Connect(V5, "", False),
    ),
    Golden(
        "CONNECT with a password alone",
        V5,
        CLIENT,
        bytes.fromhex(
            "10 12"  # CONNECT, 18 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "05"  # protocol level
            "42"  # flags: password, clean start
            "00 3C"  # keep alive 60 s
            "00"  # no properties
            "00 01 61"  # client id "a"
            "00 02 70 77"  # password "pw"
        ),
        Connect(V5, "a", True, 60, None, None, b"pw"),
    ),
    Golden(
        "CONNECT with a will without properties",
        V5,
        CLIENT,
        bytes.fromhex(
            "10 14"  # CONNECT, 20 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "05"  # protocol level
            "06"  # flags: will, clean start
            "00 00"  # keep alive off
            "00"  # no properties
            "00 01 61"  # client id "a"
            "00"  # no will properties
            "00 01 77"  # will topic "w"
            "00 00"  # empty will payload
        ),
        Connect(V5, "a", True, 0, Will("w", b"")),
    ),
    Golden(
        "CONNECT full",
        V5,
        CLIENT,
        bytes.fromhex(
            "10 77"  # CONNECT, 119 bytes follow
            "00 04 4D 51 54 54"  # protocol name "MQTT"
            "05"  # protocol level
            "F6"  # flags: user name, password, will retain, will QoS 2, will, clean start
            "00 1E"  # keep alive 30 s
            "2F"  # 47 bytes of properties
            "11 00 00 0E 10"  # session expiry interval 3600 s
            "15 00 05 53 43 52 41 4D"  # authentication method "SCRAM"
            "16 00 02 01 FF"  # authentication data
            "17 00"  # request problem information 0
            "19 01"  # request response information 1
            "21 00 14"  # receive maximum 20
            "22 00 0A"  # topic alias maximum 10
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "26 00 01 6B 00 01 77"  # user property "k": "w": the same name again
            "27 00 01 00 00"  # maximum packet size 65,536
            "00 02 63 31"  # client id "c1"
            "29"  # 41 bytes of will properties
            "01 01"  # payload format indicator: UTF-8
            "02 00 00 00 3C"  # message expiry interval 60 s
            "03 00 0A 74 65 78 74 2F 70 6C 61 69 6E"  # content type "text/plain"
            "08 00 01 72"  # response topic "r"
            "09 00 02 C0 DE"  # correlation data
            "18 00 00 00 05"  # will delay interval 5 s
            "26 00 01 61 00 01 62"  # user property "a": "b"
            "00 01 77"  # will topic "w"
            "00 03 01 02 03"  # will payload
            "00 01 75"  # user name "u"
            "00 02 70 77"  # password "pw"
        ),
        Connect(
            V5,
            "c1",
            True,
            30,
            Will(
                "w",
                b"\x01\x02\x03",
                2,
                True,
                Properties(
                    payload_format_indicator=1,
                    message_expiry_interval=60,
                    content_type="text/plain",
                    response_topic="r",
                    correlation_data=b"\xc0\xde",
                    will_delay_interval=5,
                    user_properties=(("a", "b"),),
                ),
            ),
            "u",
            b"pw",
            Properties(
                session_expiry_interval=3600,
                authentication_method="SCRAM",
                authentication_data=b"\x01\xff",
                request_problem_information=0,
                request_response_information=1,
                receive_maximum=20,
                topic_alias_maximum=10,
                user_properties=(("k", "v"), ("k", "w")),
                maximum_packet_size=65_536,
            ),
        ),
    ),
]

CONNACKS = [
    Golden("CONNACK accepted", V31, SERVER, bytes.fromhex("20 02 00 00"), Connack()),  # reserved byte, return code
    Golden("CONNACK reserved byte", V31, SERVER, bytes.fromhex("20 02 01 00"), Connack(), shortest=False),
    Golden("CONNACK wrong protocol", V31, SERVER, bytes.fromhex("20 02 00 01"), Connack(1)),
    Golden("CONNACK id rejected", V31, SERVER, bytes.fromhex("20 02 00 02"), Connack(2)),
    Golden("CONNACK unavailable", V31, SERVER, bytes.fromhex("20 02 00 03"), Connack(3)),
    Golden("CONNACK bad password", V31, SERVER, bytes.fromhex("20 02 00 04"), Connack(4)),
    Golden("CONNACK not authorized", V31, SERVER, bytes.fromhex("20 02 00 05"), Connack(5)),
    Golden("CONNACK accepted", V311, SERVER, bytes.fromhex("20 02 00 00"), Connack()),  # flags, return code
    Golden("CONNACK session present", V311, SERVER, bytes.fromhex("20 02 01 00"), Connack(0, True)),
    Golden("CONNACK wrong protocol", V311, SERVER, bytes.fromhex("20 02 00 01"), Connack(1)),
    Golden("CONNACK id rejected", V311, SERVER, bytes.fromhex("20 02 00 02"), Connack(2)),
    Golden("CONNACK unavailable", V311, SERVER, bytes.fromhex("20 02 00 03"), Connack(3)),
    Golden("CONNACK bad password", V311, SERVER, bytes.fromhex("20 02 00 04"), Connack(4)),
    Golden("CONNACK not authorized", V311, SERVER, bytes.fromhex("20 02 00 05"), Connack(5)),
    Golden("CONNACK accepted", V5, SERVER, bytes.fromhex("20 03 00 00 00"), Connack()),  # flags, reason, no properties
    Golden("CONNACK session present", V5, SERVER, bytes.fromhex("20 03 01 00 00"), Connack(0, True)),
    Golden("CONNACK not authorized", V5, SERVER, bytes.fromhex("20 03 00 87 00"), Connack(0x87)),
    Golden(
        "CONNACK full",
        V5,
        SERVER,
        bytes.fromhex(
            "20 44"  # CONNACK, 68 bytes follow
            "01"  # flags: session present
            "00"  # reason: success
            "41"  # 65 bytes of properties
            "11 00 00 00 0A"  # session expiry interval 10 s
            "12 00 03 61 2D 31"  # assigned client identifier "a-1"
            "13 00 3C"  # server keep alive 60 s
            "15 00 01 6D"  # authentication method "m"
            "16 00 01 64"  # authentication data
            "1A 00 02 72 2F"  # response information "r/"
            "1C 00 02 73 32"  # server reference "s2"
            "1F 00 02 6F 6B"  # reason string "ok"
            "21 00 64"  # receive maximum 100
            "22 00 0A"  # topic alias maximum 10
            "24 01"  # maximum QoS 1
            "25 01"  # retain available
            "26 00 01 6B 00 01 76"  # user property "k": "v"
            "27 00 10 00 00"  # maximum packet size 1,048,576
            "28 01"  # wildcard subscription available
            "29 01"  # subscription identifiers available
            "2A 00"  # shared subscription not available
        ),
        Connack(
            0,
            True,
            Properties(
                session_expiry_interval=10,
                assigned_client_identifier="a-1",
                server_keep_alive=60,
                authentication_method="m",
                authentication_data=b"d",
                response_information="r/",
                server_reference="s2",
                reason_string="ok",
                receive_maximum=100,
                topic_alias_maximum=10,
                maximum_qos=1,
                retain_available=1,
                user_properties=(("k", "v"),),
                maximum_packet_size=1_048_576,
                wildcard_subscription_available=1,
                subscription_identifiers_available=1,
                shared_subscription_available=0,
            ),
        ),
    ),
]
