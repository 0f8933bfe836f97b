"""Log lines on standard error: JSON, or colours on a terminal."""

import sys

import structlog
from structlog.typing import Processor


def configure_logs(level: str = "info", form: str = "auto") -> None:
    """Set up structlog for this process; `form` is `json`, `console`, or `auto` for what standard error suggests."""
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "console" or (form == "auto" and sys.stderr.isatty()):
        processors.append(structlog.dev.ConsoleRenderer())
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
