"""Errors of Spark as errors of Holdfast, in one line, without the stacks of Java and Python."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from holdfast.model.errors import HoldfastError, PermanentError, TransientError

SPARK_ERRORS: Final = (Py4JError, PySparkException)
_PERMANENT: Final = re.compile(r"(?:[\w.]+\.)?(?:PermanentError|SettingsError): (.*)")
_CODES: Final = re.compile(r"^\[[A-Z_.]+\] |;? ?SQLSTATE: \w+|; line \d+ pos \d+;?$", re.MULTILINE)
#: The last line of a worker's traceback, which says what went wrong there.
_RAISED: Final = re.compile(r"^(?:holdfast\.[\w.]*|\w*)(?:Error|Exception): (.+)$", re.MULTILINE)


@contextmanager
def spark_errors() -> Iterator[None]:
    """An error of Spark in the block becomes the worker's PermanentError, or a TransientError."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise translate_error(error, "Spark failed") from error


@contextmanager
def permanent_errors() -> Iterator[None]:
    """An error of Spark in the block becomes a PermanentError."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise PermanentError(describe_error(error)) from error


def translate_error(error: Exception, context: str) -> HoldfastError:
    """PermanentError if a worker raised one, or a SettingsError; TransientError for anything else."""
    line = last_line(error)
    found = _PERMANENT.fullmatch(line)
    return PermanentError(f"{context}: {found[1]}") if found else TransientError(f"{context}: {line}")


def last_line(error: Exception) -> str:
    """The worker's exception, if a worker raised one; otherwise the first line of the error."""
    raised = [line for line in str(error).splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return raised[-1] if raised else (str(error).splitlines() or [type(error).__name__])[0]


def describe_error(error: BaseException) -> str:
    """What went wrong, for the author of a statement; a syntax error keeps the statement with the mark in it."""
    text = str(error)
    raised: list[str] = _RAISED.findall(text)
    if raised and "Traceback (most recent call last)" in text:
        return raised[-1]
    text = _CODES.sub("", text.split("\n\nJVM stacktrace")[0].split("\n\tat ")[0]).strip()
    # Behind an error that is not about the statement's text stands Spark's plan.
    return text if "== SQL ==" in text else text.split("\n")[0]
