"""Roles."""

import pytest

from holdfast.model.roles import ROLES, includes


@pytest.mark.compiled
def test_each_role_includes_itself_and_those_before_it() -> None:
    for index, role in enumerate(ROLES):
        assert [includes(role, other) for other in ROLES] == [place <= index for place in range(len(ROLES))]
