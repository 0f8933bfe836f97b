"""Requests between nodes, byte by byte."""

#: Session id "ü"; the channel 3 of node 2 in epoch 9, at revision 65536; the taker is channel 5 of node 1 in epoch 10.
BEGIN = """
    01  02 00 c3 bc
    02 00 00 00  09 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00  00 00 01 00 00 00 00 00
    01 00 00 00  0a 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00
"""
BEGUN = "01  01"
GONE = "01  02"

#: Node 2 in epoch 9 tells the second of three parts: "ü" with connection 3 at revision 65536; "a" has ended.
GOSSIP = """
    01  02 00 00 00  09 00 00 00 00 00 00 00  02  01 00  03 00  02 00 00 00
    02 00 c3 bc  03 00 00 00 00 00 00 00  00 00 01 00 00 00 00 00
    01 00 61  00 00 00 00 00 00 00 00  00 00 02 00 00 00 00 00
"""
#: Connection 5 of node 1 in epoch 10 asks for the lock of "ü".
LOCK = "01  01  02 00 c3 bc  01 00 00 00  0a 00 00 00 00 00 00 00  05 00 00 00 00 00 00 00"
TAKEN = "01  02"
