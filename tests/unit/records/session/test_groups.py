"""Groups of shared subscriptions as records."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.session.groups import GROUP_PREFIX, GroupRecord, decode_group, encode_group, group_key, member_key

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("replaying", [False, True])
@pytest.mark.parametrize("unlisted", [False, True])
def test_a_group_comes_back(replaying: bool, unlisted: bool) -> None:
    record = GroupRecord(-5, replaying=replaying, steal_after_us=7_000_000, unlisted=unlisted)

    assert decode_group(encode_group(record)) == record


def test_another_version_and_a_torn_record_are_refused() -> None:
    value = encode_group(GroupRecord(0, replaying=False, steal_after_us=0))

    for wrong in (b"\x02" + value[1:], value[:-1], value + b"x"):
        with pytest.raises(PermanentError, match="a group"):
            decode_group(wrong)


def test_members_lie_behind_their_group_and_no_client_can_have_its_name() -> None:
    client = f"{GROUP_PREFIX}$share/g/a"

    assert member_key(client, "one")[:-4] == group_key(client)[:-1]
    assert group_key(client) < member_key(client, "one")
    assert GROUP_PREFIX.startswith("\0")
