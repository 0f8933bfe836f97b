"""History from the process beside a broker, on this machine or another, by Arrow Flight."""

from typing import Final

from pyarrow import flight  # type: ignore[import-untyped]

from holdfast.history.flight_client import PATIENCE_S, FlightHistory
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.reader_source import ReaderSource

#: Seconds that a first look waits for a server that is just being started. Somebody waits for the answer.
FIRST_PATIENCE_S: Final = 10.0


class FlightSource(ReaderSource):
    """Connected where it is used first; a worker that only reads parts asks for nothing else."""

    def __init__(
        self, endpoint: str, token: str | None = None, ca: bytes | None = None, *, patience_s: float = PATIENCE_S
    ) -> None:
        try:
            super().__init__(FlightHistory(endpoint, token, ca, patience_s=patience_s))
        except PermanentError as wrong:
            raise SettingsError(f"option endpoint: {wrong}") from wrong


def reached(endpoint: str, token: str | None, ca: bytes | None) -> FlightSource:
    """One that answers, and that may be read; SettingsError names the option that is wrong."""
    source = FlightSource(endpoint, token, ca, patience_s=FIRST_PATIENCE_S)
    try:
        source.heads()
    except (PermanentError, TransientError) as wrong:
        source.close()
        refused = isinstance(wrong.__cause__, flight.FlightUnauthenticatedError)
        raise SettingsError(f"option {'token' if refused else 'endpoint'}: {wrong}") from wrong
    return source
