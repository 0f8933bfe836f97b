"""Asks the endpoints of the past as their server does, without a socket."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.history.past.endpoints import ANSWERS
from holdfast.history.past.questions import QuestionError
from holdfast.history.reader.reader_pool import ReaderPool


class Questioner:
    """`ask("messages", filter="#")` is the answer, as a client gets it."""

    def __init__(self, folder: Path) -> None:
        self.pool = ReaderPool(folder, 4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.close()

    def __call__(self, path: str, /, **params: object) -> Any:
        """`from_` stands for `from`, and a list for a parameter that is repeated."""
        given = {
            name.rstrip("_"): [str(one) for one in value] if isinstance(value, list) else [str(value)]
            for name, value in params.items()
        }
        (answer,) = ANSWERS[f"/{path}"](self.pool, given, lambda: False)
        return msgspec.json.decode(msgspec.json.encode(answer))

    def refused(self, path: str, /, **params: object) -> QuestionError:
        try:
            answer = self(path, **params)
        except QuestionError as error:
            return error
        raise AssertionError(f"it was answered: {answer}")

    def pages(self, path: str, items: str, /, **params: object) -> list[Any]:
        """The items of all pages of a list."""
        found: list[Any] = []
        answer = self(path, **params)
        for _page in range(10_000):
            found += answer[items]
            if answer["next_cursor"] is None:
                return found
            answer = self(path, cursor=answer["next_cursor"], **params)
        raise AssertionError(f"{path} does not come to an end")
