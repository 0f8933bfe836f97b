"""Errors of Spark are one line: what a worker raised, and whether trying again can help."""

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.spark.errors import describe_error, last_line, permanent_errors, spark_errors, translate_error

WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "reader.py", line 10, in read
holdfast.model.errors.PermanentError: shard 3 gave 5 messages
\tat org.apache.spark.api.python.BasePythonRunner
"""
SYNTAX = (
    "[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'. SQLSTATE: 42601 (line 1, pos 9)\n\n== SQL ==\nSELECT * FORM x"
)


def test_a_permanent_error_of_a_worker_stays_permanent() -> None:
    assert last_line(Py4JError(WORKER)) == "holdfast.model.errors.PermanentError: shard 3 gave 5 messages"
    error = translate_error(Py4JError(WORKER), "step decode")
    assert isinstance(error, PermanentError)
    assert str(error) == "step decode: shard 3 gave 5 messages"


def test_any_other_error_may_be_tried_again() -> None:
    with pytest.raises(TransientError, match=r"^Spark failed: the executor was lost$"), spark_errors():
        raise Py4JError("the executor was lost\n\tat java.lang.Thread.run")


def test_a_statement_keeps_its_text_and_loses_codes_and_stacks() -> None:
    assert describe_error(Py4JError(WORKER)) == "shard 3 gave 5 messages"
    shown = describe_error(PySparkException(SYNTAX))
    assert shown.startswith("Syntax error at or near 'FORM'.")
    assert shown.endswith("== SQL ==\nSELECT * FORM x")
    assert describe_error(PySparkException("no such table\n'UnresolvedRelation [x]")) == "no such table"


def test_errors_that_are_not_of_spark_pass() -> None:
    with pytest.raises(PermanentError, match=r"^no such table$"), permanent_errors():
        raise PySparkException("no such table")
    with pytest.raises(KeyError), permanent_errors():
        raise KeyError("x")
