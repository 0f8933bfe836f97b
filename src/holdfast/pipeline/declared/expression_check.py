"""Checks of expressions that need Spark: whether SQL is right for the columns that there will be.

Done on tables without rows, before any stream runs. Errors name the line, as those of `parser.py` do.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructType, VariantType

from holdfast.pipeline.declared.declaration import ALSO_READ, QUARANTINE, QUARANTINED, ROWS, AggregateSpec, Declaration
from holdfast.pipeline.declared.parser import DeclarationError
from holdfast.pipeline.declared.toml_lines import Path as Place

_PREFIX: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


def empty_table(spark: SparkSession, types: Mapping[str, str]) -> DataFrame:
    """A table without rows."""
    return spark.createDataFrame([], struct_type(types))


def struct_type(types: Mapping[str, str]) -> StructType:
    found = StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in types.items()))
    assert isinstance(found, StructType)
    return found


def check_expressions(spark: SparkSession, declared: Declaration) -> dict[str, StructType]:
    """The schemas of all tables that sinks can have. DeclarationError says everything that is wrong."""
    wrong: list[str] = []

    def tried(place: Place, title: str, what: Callable[[], DataFrame]) -> DataFrame | None:
        try:
            return what()
        except PySparkException as error:
            wrong.append(f"{declared.where_is(place)}: {title}: {_said(error)}")
            return None

    rows = empty_table(spark, declared.row_types())
    seen = empty_table(spark, {**declared.row_types(), **ALSO_READ})
    for rule in declared.rules:
        place, title = (*rule.place, "where"), f"[[rule]] {rule.name}"
        found = tried(place, title, partial(_judged, seen, rule.where))
        if found is not None and not isinstance(found.schema[0].dataType, BooleanType):
            kind = found.schema[0].dataType.simpleString()
            wrong.append(f"{declared.where_is(place)}: {title}: where gives {kind}; it has to be true or false")
    tables = {ROWS: rows, QUARANTINE: empty_table(spark, QUARANTINED)}
    for aggregate in declared.aggregates:
        title = f"[[aggregate]] {aggregate.name}"
        for name, expression in aggregate.measures.items():
            place = (*aggregate.place, "measures", name)
            measured = tried(place, title, partial(_measured, rows, expression))
            if measured is not None and isinstance(measured.schema["found"].dataType, VariantType):
                wrong.append(f"{declared.where_is(place)}: {title}: {name} is a variant; cast it to another type")
        if not wrong:
            tables[aggregate.name] = aggregate_windows(rows, aggregate)
    for sink in declared.publishes:
        if sink.of in tables and sink.payload is not None:
            place, title = (*sink.place, "payload"), "[[sink]] publish"
            found = tried(place, title, partial(_selected, tables[sink.of], sink.payload))
            if found is not None and not isinstance(found.schema[0].dataType, StringType | BinaryType):
                kind = found.schema[0].dataType.simpleString()
                wrong.append(f"{declared.where_is(place)}: {title}: payload is {kind}; cast it to string or binary")
    if wrong:
        raise DeclarationError("\n".join(wrong))
    return {name: table.schema for name, table in tables.items()}


def _judged(rows: DataFrame, expression: str) -> DataFrame:
    # As a condition first: there, no aggregates are allowed.
    return rows.where(sql.expr(expression)).select(sql.expr(expression))


def _measured(rows: DataFrame, expression: str) -> DataFrame:
    return rows.groupBy("ts").agg(sql.expr(expression).alias("found"))


def _selected(rows: DataFrame, expression: str) -> DataFrame:
    return rows.select(sql.expr(expression))


def aggregate_windows(rows: DataFrame, aggregate: AggregateSpec) -> DataFrame:
    """Windows with their measures; the same for a stream and for a table without rows."""
    window = sql.window(sql.col(aggregate.time), aggregate.window, aggregate.slide)
    measures = [sql.expr(text).alias(name) for name, text in aggregate.measures.items()]
    grouped = rows.groupBy(window.alias("_window"), *(sql.col(name) for name in aggregate.by)).agg(*measures)
    bounds = [sql.col(f"_window.{end}").alias(f"window_{end}") for end in ("start", "end")]
    return grouped.select(*bounds, *(sql.col(name) for name in (*aggregate.by, *aggregate.measures)))


def fill_topic(template: str) -> Column:
    """A topic with columns in braces. Wildcards in a column would make it no topic, so they are replaced."""
    pieces = _BRACES.split(template)
    columns = [
        sql.translate(sql.coalesce(sql.col(piece).cast("string"), sql.lit("null")), "+#\0", "___")
        if number % 2
        else sql.lit(piece)
        for number, piece in enumerate(pieces)
    ]
    return sql.concat(*columns)


def _said(error: PySparkException) -> str:
    """The sentence for people, without what surrounds it."""
    text = (error.getMessage() or str(error)).split(" SQLSTATE:")[0].split("\n\n")[0]
    return _PREFIX.sub("", " ".join(text.split())).rstrip(".")
