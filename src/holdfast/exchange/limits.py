"""Limits that the path of messages keeps."""

from dataclasses import dataclass

from holdfast.model.protocol import QOS_2


@dataclass(frozen=True)
class Limits:
    max_qos: int = QOS_2
    retain_available: bool = True
    max_topic_levels: int = 200
    upgrade_outgoing_qos: bool = False
    #: Refuse a payload that claims to be UTF-8 and is not.
    check_payload_format: bool = False
