"""Log lines on standard error: JSON, or colours on a terminal.

1. What a client names itself cannot forge a line, move the cursor or turn text around: JSON escapes it, and so does
   the form for terminals here, in values and in tracebacks. The lines of a traceback are indented, others are not.
2. A traceback shows no local variables: there are passwords, cookies and tokens among them.
"""

import sys
import traceback
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger


def configure_logs(level: str = "info", form: str = "auto") -> None:
    """Set up structlog for this process; `form` is `json`, `console`, or `auto` for what standard error suggests."""
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "console" or (form == "auto" and sys.stderr.isatty()):
        processors += [escape_values, structlog.dev.ConsoleRenderer(exception_formatter=write_traceback)]
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def escape_values(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    """Write out the characters of a line's texts that are not printed."""
    for key, value in line.items():
        if isinstance(value, str):
            line[key] = _escape(value)
    return line


def write_traceback(output: TextIO, error: ExcInfo) -> None:
    """Write a traceback without locals, each of its lines escaped and indented."""
    for line in "".join(traceback.format_exception(*error)).rstrip("\n").split("\n"):
        output.write(f"\n  {_escape(line)}")


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
