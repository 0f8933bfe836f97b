"""Messages of a generation that were lost because the commit page that held them is damaged.

They stand in the generation's record, as its parameter `lost`: a text of ranges, each

    shard:first position:last position:first serial:messages          joined by ;

in the order of time for each shard. Who reads the generation leaves these ranges out, and reports them.
"""

from typing import Final, NamedTuple

from holdfast.model.errors import PermanentError

#: The name of the parameter. Never change.
LOST: Final = "lost"
#: Of the text: what a record has room for.
MAX_LOST_BYTES: Final = 60_000
_FIELDS: Final = 5


class LostPages(NamedTuple):
    """Commit pages that follow each other and cannot be read."""

    shard: int
    first_us: int
    #: The last position that they may have had.
    last_us: int
    first_serial: int
    messages: int

    def last_serial(self) -> int:
        return self.first_serial + self.messages - 1

    def __str__(self) -> str:
        return (
            f"messages {self.first_serial} to {self.last_serial()} of shard {self.shard} are lost, with positions from "
            f"{self.first_us} to {self.last_us}"
        )


def format_lost(lost: list[LostPages]) -> str:
    return ";".join([":".join([str(number) for number in one]) for one in lost])


def parse_lost(text: str) -> list[LostPages]:
    found: list[LostPages] = []
    for one in text.split(";"):
        numbers = one.split(":")
        if len(numbers) != _FIELDS or not all(number.isdecimal() for number in numbers):
            raise PermanentError(f"a generation has lost {one!r}, which is no range of messages")
        shard, first_us, last_us, first_serial, messages = [int(number) for number in numbers]
        found.append(LostPages(shard, first_us, last_us, first_serial, messages))
    return found
