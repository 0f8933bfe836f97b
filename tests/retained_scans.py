"""Scans of retained messages, read as a test wants them: slice by slice, to their end."""

from holdfast.durable.retained.retained_store import RetainedScan, ScanBudget
from holdfast.model.message import Message

SLICE = 7


def take(scan: RetainedScan) -> Message:
    """The next message, which has to be there."""
    while not scan.over():
        message = scan.next(ScanBudget(SLICE))
        if message is not None:
            return message
    raise AssertionError("nothing more is found")


def rest_of(scan: RetainedScan) -> list[Message]:
    """Everything that a scan still finds."""
    found = []
    while not scan.over():
        message = scan.next(ScanBudget(SLICE))
        if message is not None:
            found.append(message)
    return found
