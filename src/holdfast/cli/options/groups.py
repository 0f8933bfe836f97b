"""Options that several commands share, declared once as a dataclass.

    @dataclass(frozen=True, kw_only=True)
    class Address:
        host: Annotated[str, typer.Option(help="…")] = "127.0.0.1"

    @grouped
    def command(topic: Annotated[str, typer.Argument()], address: Address) -> None: ...

Typer reads signatures and has no groups. So `grouped` gives it a signature with the fields of each group in place of
its parameter, and makes the group from the values that Typer passes.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def grouped(verb: Callable[..., None]) -> Callable[..., None]:
    """The same command with its groups of options expanded; a group is a parameter whose type is a dataclass."""
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            parameters += _parameters(kind)
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(verb)
    def spread(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        verb(**values)

    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
