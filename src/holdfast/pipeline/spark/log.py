"""Warnings of readers and jobs, through Python's logging, which Spark can collect from its workers."""

import logging
from typing import Final

LOGGER: Final = logging.getLogger("holdfast.pipeline")


def log_gap(reason: str) -> None:
    """Messages are missing from a result, and the options accept that."""
    LOGGER.warning("history has a gap: %s", reason)
