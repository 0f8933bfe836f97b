"""What a SQL statement reads of a view: which columns, and whether the log may apply its conditions.

Spark tells a Python source neither. So the statement is planned twice: first, without running anything, over empty
stand-ins of the views; then over a table that was loaded with just these columns, and has constants for the others.

    statement ─▶ analyzed, optimized over stand-ins ─▶ ViewReads(columns, is_single) ─▶ options of the data source

A plan over a stand-in is right for all rows that its schema allows. If it does not use a column, no value of it changes
the answer. The constants keep the schema: a column that is never null is not null in the second plan either.

1. An answer never depends on this. Where a plan is not understood, `reads_of` is None, and all is read:
   commands, subqueries in expressions, views that a statement made, operators that are not listed.
2. Conditions are applied by the log only if the view stands once in the plan: Spark keeps one plan for each table that
   was loaded, so two uses of it would share their conditions (`source/pushdown.py`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.types import StructField, StructType

from holdfast.pipeline.spark.errors import SPARK_ERRORS

_CATALYST: Final = "org.apache.spark.sql.catalyst.plans.logical"
#: Operators whose expressions, and the columns of the whole plan, say which columns of their children they need.
_UNDERSTOOD: Final = frozenset(
    [
        "Aggregate",
        "Expand",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "LocalRelation",
        "LogicalRDD",
        "Offset",
        "OneRowRelation",
        "Project",
        "Range",
        "RepartitionByExpression",
        "Sort",
        "Window",
    ]
)
_STAND_IN: Final = "LogicalRDD"
#: Values of columns that are never null.
_CONSTANTS: Final = {
    "binary": "CAST('' AS BINARY)",
    "boolean": "false",
    "map<string,string>": "CAST(map() AS map<string,string>)",
    "string": "''",
    "timestamp": "timestamp_micros(0)",
}


class ViewReads(NamedTuple):
    """What a statement reads of a view."""

    #: In the order of the view; none if it only counts rows.
    columns: tuple[str, ...]
    #: Whether the view stands once in the plan.
    is_single: bool


class StandIns:
    """Empty views with the schemas of others, for planning."""

    def __init__(self, spark: SparkSession, schemas: Mapping[str, StructType]) -> None:
        self._spark: Final = spark
        self._frames: Final[dict[str, DataFrame]] = {
            # Not an empty list of rows: Spark would plan nothing at all over that.
            name: spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
            for name, schema in schemas.items()
        }

    def reads_of(self, statement: str) -> dict[str, ViewReads] | None:
        """What a statement reads of each view that it uses; None if it cannot be told.

        Requires: the session is not used meanwhile. The views of these names are the stand-ins afterwards.
        """
        for name, frame in self._frames.items():
            frame.createOrReplaceTempView(name)
        try:
            plan = self._plan(statement)
            return None if plan is None else self._reads(plan)
        except SPARK_ERRORS:
            return None  # the statement is wrong, and is told so when it runs

    def _plan(self, statement: str) -> Any:
        """The optimized plan of a query; None for other statements."""
        state = self._spark._jsparkSession.sessionState()
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None
        skipped = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
        execution = state.executePlan(state.sqlParser().parsePlan(statement), skipped)
        for node in _nodes(execution.analyzed()):
            if self._is(node, "Command") or self._is_other_view(node) or not node.subqueriesAll().isEmpty():
                return None
        return execution.optimizedPlan()

    def _is(self, node: Any, kind: str) -> bool:
        gateway = self._spark.sparkContext._gateway
        return bool(is_instance_of(gateway, node, f"{_CATALYST}.{kind}"))

    def _is_other_view(self, node: Any) -> bool:
        return node.nodeName() == "View" and node.desc().identifier().table() not in self._frames

    def _reads(self, plan: Any) -> dict[str, ViewReads] | None:
        views = {frame._jdf.queryExecution().analyzed().rdd().id(): name for name, frame in self._frames.items()}
        used = {attribute.exprId().id() for attribute in _items(plan.output())}
        places: dict[str, list[dict[int, str]]] = {}
        for node in _nodes(plan):
            if node.nodeName() not in _UNDERSTOOD or not node.subqueriesAll().isEmpty():
                return None
            view = views.get(node.rdd().id()) if node.nodeName() == _STAND_IN else None
            if view is not None:
                columns = {attribute.exprId().id(): attribute.name() for attribute in _items(node.output())}
                places.setdefault(view, []).append(columns)
            else:
                used |= {attribute.exprId().id() for attribute in _items(node.references().toSeq())}
        return {view: self._read(view, found, used) for view, found in places.items()}

    def _read(self, view: str, places: list[dict[int, str]], used: set[int]) -> ViewReads:
        found = {name for place in places for number, name in place.items() if number in used}
        return ViewReads(tuple(name for name in self._frames[view].columns if name in found), len(places) == 1)


def with_constants(table: DataFrame, schema: StructType) -> DataFrame:
    """A table with the columns of a schema: constants stand for those that it does not have."""
    return table.select(
        *[
            col(field.name) if field.name in table.columns else expr(_constant(field)).alias(field.name)
            for field in schema.fields
        ]
    )


def _constant(field: StructField) -> str:
    kind = field.dataType.simpleString()
    return f"CAST(NULL AS {kind})" if field.nullable else _CONSTANTS.get(kind, f"CAST(0 AS {kind})")


def _nodes(plan: Any) -> Iterator[Any]:
    """An operator and all below it."""
    yield plan
    for child in _items(plan.children()):
        yield from _nodes(child)


def _items(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala."""
    elements = sequence.iterator()
    while elements.hasNext():
        yield elements.next()
