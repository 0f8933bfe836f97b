"""Frozen dataclasses that Spark sends to its executors.

Compiled, such a class would be unpickled by setting its fields one after the other, which it forbids. So it is made
again from its fields:

    def __reduce__(self) -> Reduced:
        return reduce_by_fields(self)
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

Reduced = tuple[Callable[[type, dict[str, Any]], Any], tuple[type, dict[str, Any]]]


def reduce_by_fields(record: Any) -> Reduced:
    """What `__reduce__` of a dataclass returns."""
    return make_again, (type(record), {field.name: getattr(record, field.name) for field in fields(record)})


def make_again(kind: type, values: dict[str, Any]) -> Any:
    return kind(**values)
