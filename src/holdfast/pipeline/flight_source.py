"""History from the process beside a broker, on this machine or another, by Arrow Flight.

`open_endpoint` is the only way from the pipeline to an endpoint (an import contract sees to it): whoever reads a table,
renews a lease or checks an option shows the same token and trusts the same authorities.
"""

from typing import Final

from pyarrow import flight  # type: ignore[import-untyped]

from holdfast.history.flight_client import PATIENCE_S, UNTRUSTED, FlightHistory
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.options import Options
from holdfast.pipeline.reader_source import ReaderSource

#: Seconds that a first look waits for a server that is just being started. Somebody waits for the answer.
FIRST_PATIENCE_S: Final = 10.0


def open_endpoint(options: Options, *, patience_s: float = PATIENCE_S) -> FlightHistory:
    """Connected where it is used first; a worker that only reads parts asks for nothing else.

    SettingsError if the endpoint is no address.
    """
    try:
        return FlightHistory(options.endpoint, options.token, options.ca, patience_s=patience_s)
    except PermanentError as wrong:
        raise SettingsError(f"option endpoint: {wrong}") from wrong


class FlightSource(ReaderSource):
    """Meets `HistorySource` by an endpoint."""

    def __init__(self, options: Options, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__(open_endpoint(options, patience_s=patience_s))


def reached(options: Options) -> FlightSource:
    """One that answers, and that may be read; SettingsError names the option that is wrong."""
    source = FlightSource(options, patience_s=FIRST_PATIENCE_S)
    try:
        source.heads()
    except (PermanentError, TransientError) as wrong:
        source.close()
        raise SettingsError(f"option {_option_of(wrong.__cause__)}: {wrong}") from wrong
    return source


def _option_of(error: BaseException | None) -> str:
    """Which option a refusal is about."""
    if isinstance(error, flight.FlightUnauthenticatedError):
        return "token"
    return "ca" if UNTRUSTED in str(error) else "endpoint"
