"""The commit under way: the batch that is being filled, and what waits for its receipt."""

from typing import Final

from holdfast.durable.commit import Batch
from holdfast.durable.sessions import Step
from holdfast.exchange.passage import Effect

#: From this many on, writing while a sync runs saves more than waiting for a larger batch does.
_LARGE: Final = 100


class Sealed:
    """A batch that is complete, with what is to be done when it is committed."""

    def __init__(self, batch: Batch, effects: list[Effect], size_bytes: int) -> None:
        self.batch: Final = batch
        self.effects: Final = effects
        #: Bytes that came while it was filled: about what it keeps in memory.
        self.size_bytes: Final = size_bytes


class UnderWay:
    """What the path of messages adds to, from all its parts.

    1. An effect stands in the same batch as the changes that it waits for, or in a later one.
    """

    def __init__(self) -> None:
        self.batch = Batch(1)
        self.effects: list[Effect] = []

    def step(self, step: Step) -> None:
        """Change a session with this batch."""
        self.batch.steps.append(step)

    def empty(self) -> bool:
        return not self.effects and len(self.batch) == 0

    def is_large(self) -> bool:
        """Whether it is worth a write of its own, though a sync is under way."""
        return len(self.effects) >= _LARGE or len(self.batch) >= _LARGE

    def seal(self, size_bytes: int) -> Sealed:
        """Close the batch and begin the next one."""
        sealed = Sealed(self.batch, self.effects, size_bytes)
        self.batch = Batch(sealed.batch.number + 1)
        self.effects = []
        return sealed
