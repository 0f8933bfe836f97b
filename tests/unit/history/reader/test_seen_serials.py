"""A read that begins again leaves out what was passed on."""

from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.history.reader.record_replay import SERIAL
from holdfast.history.reader.seen_serials import SeenSerials
from holdfast.history.reader.view import Part
from holdfast.model.errors import PermanentError

PART = Part("z", 0, 1, 0, 100, after_serial=10, last_serial=15)


def batch(*serials: int) -> Any:
    return pa.record_batch([pa.array(serials, pa.int64())], [SERIAL])


def test_each_message_is_new_once_in_any_order() -> None:
    seen = SeenSerials(PART)

    found = [
        seen.news(one).column(SERIAL).to_pylist() for one in (batch(12, 11), batch(11, 15, 12), batch(15), batch())
    ]

    assert found == [[12, 11], [15], [], []]


@pytest.mark.parametrize("serial", [10, 16])
def test_a_serial_outside_of_the_part_is_an_error(serial: int) -> None:
    with pytest.raises(PermanentError, match="holdfast verify"):
        SeenSerials(PART).news(batch(serial))


def test_a_part_without_serials_cannot_be_followed() -> None:
    assert SeenSerials.can_follow(PART)
    assert not SeenSerials.can_follow(PART.cut(50)[0])
