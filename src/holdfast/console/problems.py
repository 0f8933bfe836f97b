"""Answers to requests that are refused or fail: RFC 9457, `application/problem+json`.

`detail` says what was wrong and what would be right. It never holds a secret, nor a text of an unexpected exception.
"""

from collections.abc import Mapping
from http import HTTPStatus

from holdfast.model.errors import HoldfastError


class ProblemError(HoldfastError):
    """A request that ends with an error status."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        parameter: str = "",
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
        #: The parameter or field that is wrong; empty for none.
        self.parameter = parameter
        self.headers = dict(headers or {})
        #: Further members of the answer.
        self.extra = dict(extra or {})

    def body(self) -> dict[str, object]:
        """The members of the answer."""
        found: dict[str, object] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.parameter:
            found["parameter"] = self.parameter
        return {**found, **self.extra}


def bad_parameter(name: str, detail: str) -> ProblemError:
    """400 for a parameter or a field of the body."""
    return ProblemError(400, f"{name} {detail}", parameter=name)


def broker_away(detail: str = "the broker does not answer; try again, or see its log") -> ProblemError:
    """503 for what only the broker can do."""
    return ProblemError(503, detail, headers={"Retry-After": "1"})
