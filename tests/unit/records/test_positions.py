"""Ceilings come back as they were stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError
from holdfast.records.positions import decode_ceiling, encode_ceiling

pytestmark = pytest.mark.compiled

I64 = st.integers(-(2**63), 2**63 - 1)


def test_a_number_that_does_not_fit_is_our_own_mistake() -> None:
    with pytest.raises(MisuseError, match="does not fit"):
        encode_ceiling(2**63)


@given(I64)
def test_a_ceiling_comes_back(ceiling_us: int) -> None:
    assert decode_ceiling(encode_ceiling(ceiling_us)) == ceiling_us
