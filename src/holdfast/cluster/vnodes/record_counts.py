"""What became of the records and items that a node has applied since its start. Counted by record, not by message."""

from typing import Final

import structlog

from holdfast.durable.state_machine.outcome import FOREIGN, VERDICTS, Outcome

_log = structlog.get_logger()


class RecordCounts:
    """All logs of a node together."""

    def __init__(self) -> None:
        self._verdicts: Final = dict.fromkeys(VERDICTS, 0)
        self._items = 0
        #: By the rule of the state machine that they broke.
        self._rejected: Final[dict[int, int]] = {}
        self._warned: Final[set[str]] = set()

    def applied(self, log: str, outcome: Outcome) -> None:
        """A record of a log was applied here."""
        verdict = outcome.verdict
        self._verdicts[verdict] += 1
        self._items += len(outcome.accepted)
        if outcome.rejected:
            for rule, count in outcome.rejected.items():
                self._rejected[rule] = self._rejected.get(rule, 0) + count
        if verdict == FOREIGN and log not in self._warned:
            self._warned.add(log)
            _log.warning(
                "a record of another writer is passed over; only nodes may write here", log=log, at=outcome.sequence
            )

    def counts(self) -> dict[str, int]:
        """By name. Repetitions are harmless; what is rejected by rule 5 and 6 belongs to takeovers."""
        found = {f"records/{verdict.replace(' ', '_')}": count for verdict, count in self._verdicts.items()}
        found["items"] = self._items
        return found | {f"items/rejected/rule_{rule}": count for rule, count in sorted(self._rejected.items())}
