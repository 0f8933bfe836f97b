"""The last number of a client that numbers its messages."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.session.numbers import LastNumber, decode_number, encode_number

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1])
def test_a_number_comes_back_with_its_time(number: int) -> None:
    value = encode_number(LastNumber(number, 1_700_000_000_000_000))

    assert len(value) == 17
    found = decode_number(value)
    assert (found.number, found.taken_us) == (number, 1_700_000_000_000_000)


def test_another_version_and_a_torn_record_are_refused() -> None:
    value = encode_number(LastNumber(1, 2))

    for wrong in (b"\x02" + value[1:], value[:-1], value + b"x"):
        with pytest.raises(PermanentError, match="the last number of a client"):
            decode_number(wrong)
