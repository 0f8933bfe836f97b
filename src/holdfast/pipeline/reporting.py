"""What a reader has to tell, though it goes on: through Python's logging, which Spark can gather from its workers."""

import logging
from typing import Final

from holdfast.durable.log import Lost

LOGGER: Final = logging.getLogger("holdfast.pipeline")


def report_gap(what: str) -> None:
    """Messages are missing from a result, and the reader was told to accept that."""
    LOGGER.warning("history has a gap: %s", what)


def in_words(lost: Lost) -> str:
    return (
        f"retention dropped up to {lost.at_most} messages of shard {lost.shard} before they were read, with positions "
        f"from {lost.from_us} to {lost.to_us}"
    )
