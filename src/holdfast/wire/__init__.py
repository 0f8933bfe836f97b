"""Bytes to packets and back, for MQTT 3.1, 3.1.1 and 5.0, in both directions. Pure.

framing finds packets in a stream; primitives and properties are the data types; packets are the objects. codec decodes
and encodes any packet, with one module for each kind: connect, publish, acks, subscribe. The path of a
message uses publish and publish_properties alone, which make no objects.
"""
