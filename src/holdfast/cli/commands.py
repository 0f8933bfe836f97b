"""The base of all commands of `holdfast`, on top of Typer.

1. A command is imported when it is called. The help of a group needs only `Lazy`: names and one sentence each.
2. Help is text, not markup: `[security]` is printed as it is written.
3. Text on the command line is valid UTF-8, or the command does not run. File names and payloads are bytes.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from holdfast.model.errors import PeerError
from holdfast.model.passwords import hide_passwords

_Verb = TypeVar("_Verb", bound=Callable[..., Any])

#: Exit codes of all commands; 0 is success.
FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
#: What rich would read as markup.
_TAG: Final = re.compile(r"(\[[a-z#/@][^\[]*?\])")
#: Error messages name the first one, which every command has: some use -h for the host.
_SHORT_HELP: Final = {"help_option_names": ["--help", "-h"]}


class _Prepared:
    """Rule 2, and values of parameters converted by `_Conversion`."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.help = _escape(getattr(self, "help", None))
        for parameter in getattr(self, "params", ()):
            if (shown := getattr(parameter, "help", None)) is not None:
                parameter.help = _escape(shown)

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """Sorted, so that the order does not change from run to run."""
        return sorted(super().get_help_option_names(ctx))  # type: ignore[misc]

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            parameter._runtime_param = _Conversion()
        return super().parse_args(ctx, args)  # type: ignore[misc]


class Command(_Prepared, TyperCommand):
    """One command. Rules 2 and 3."""

    def invoke(self, ctx: Any) -> Any:
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            for text in value if isinstance(value, list | tuple) else [value]:
                # Python decodes bytes that are not UTF-8 to lone surrogates.
                if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
                    # As a bytes literal: the message itself must be valid text.
                    fail(f"{_name_of(parameter)} is not valid UTF-8: {os.fsencode(text)!r}")
        return super().invoke(ctx)


class _Conversion:
    """Converts arguments. Typer does that with Pydantic, which takes a tenth of a second to import.

    So simple, correct values are converted here and all others, above all wrong ones, by Typer. A version of Typer that
    ignores this object only loses the time.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        described = param.type_descriptor
        several = param.multiple or param.nargs == -1
        try:
            if isinstance(value, bool):
                return value
            if value is None:
                return () if several else None
            if not several:
                return _convert(value, described.annotation, described.parameter_info)
            (kind,) = get_args(described.annotation)
            return [_convert(one, kind, described.parameter_info) for one in value]
        except ValueError:
            param._runtime_param = None
            return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _convert(value: Any, kind: Any, limits: Any) -> Any:
    """Convert a value of a simple type; ValueError if it is wrong or not simple."""
    if limits.parser is not None:
        return limits.parser(value)
    if kind is int:
        number = int(value)
        if (limits.min is not None and number < limits.min) or (limits.max is not None and number > limits.max):
            raise ValueError
        return number
    if kind is str or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(value)
    if kind is Path and not (limits.exists or limits.resolve_path):
        return Path(value)
    raise ValueError


class Commands(typer.Typer):
    """A group of commands."""

    def __init__(
        self, *, name: str, help: str, lazy: Mapping[str, str] = MappingProxyType({}), add_completion: bool = False
    ) -> None:
        """`lazy`: commands that are imported when they are called, as `Lazy` takes them."""

        class Group(_Prepared, TyperGroup):
            def __init__(self, **attributes: Any) -> None:
                super().__init__(**attributes)
                for target, sentence in lazy.items():
                    self.add_command(Lazy(target, sentence))

        super().__init__(
            name=name,
            help=help,
            cls=Group,
            no_args_is_help=True,
            add_completion=add_completion,
            context_settings=_SHORT_HELP,
        )
        # Typer makes a group only if it has a callback, or several commands that are loaded.
        self.callback()(lambda: None)

    def command(self, name: str | None = None, **options: Any) -> Callable[[_Verb], _Verb]:
        return super().command(name, cls=Command, **options)


class Lazy(TyperCommand):
    """Stands for a command, or a group of them, in the help of its group, and imports it when it is called."""

    def __init__(self, target: str, help: str) -> None:
        """`target`: its module below `holdfast.cli`, and its name; `help`: the first sentence of its help."""
        self._module, _, name = f"holdfast.cli.{target}".rpartition(".")
        super().__init__(name, help=_escape(help))

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        found = getattr(import_module(self._module), self.name or "")
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name, cls=Command)(found)
            found = alone
        return typer.main.get_command(found).make_context(*arguments, **options)


def fail(message: str, code: int = WRONG_USAGE) -> NoReturn:
    """Print an error without the passwords of URLs, and exit."""
    typer.echo(f"holdfast: {hide_passwords(message)}", err=True)
    raise typer.Exit(code)


@contextmanager
def exit_on(*kinds: type[Exception], named: str = "", code: int = WRONG_USAGE) -> Iterator[None]:
    """Print an error of these kinds, behind `named`, and exit. Of a PeerError among the kinds, only its detail."""
    try:
        yield
    except kinds as error:
        text = error.detail if isinstance(error, PeerError) and PeerError in kinds else str(error)
        fail(f"{named}: {text}" if named else text, code)


def _name_of(parameter: Any) -> str:
    """As it is written on the command line: --topic, or TOPIC."""
    last: str = parameter.opts[-1]
    return last if last.startswith("-") else parameter.metavar or last.upper()


def _escape(text: str | None) -> str | None:
    return None if text is None else _TAG.sub(r"\\\1", text)
