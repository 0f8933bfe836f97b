"""The record of a session: expiry, will, queue and user."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.model.will import StoredWill
from holdfast.records.session.session_record import SessionRecord, decode_session, encode_session

pytestmark = pytest.mark.compiled

SECOND_US = 1_000_000
WILL = StoredWill(b"a", b"gone", 1, retain=True, properties=b"", delay_s=5, expiry_s=-1)
RECORDS = {
    "plain": SessionRecord(expiry_s=10, disconnected_us=0),
    "will": SessionRecord(expiry_s=10, disconnected_us=3, will=WILL, cut_off=True),
    "queue": SessionRecord(expiry_s=10, disconnected_us=3, queue="redis", begun=9),
    "user": SessionRecord(expiry_s=10, disconnected_us=3, will=WILL, queue="journal", begun=1, user="alice"),
    "no user": SessionRecord(expiry_s=10, disconnected_us=3, user=""),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_a_session_comes_back(record: SessionRecord) -> None:
    assert decode_session(encode_session(record)) == record


def test_a_record_that_names_its_user_has_another_version() -> None:
    assert encode_session(RECORDS["plain"])[0] == 1
    assert encode_session(RECORDS["user"])[0] == 2


def test_an_unknown_version_and_a_torn_record_are_refused() -> None:
    value = encode_session(RECORDS["user"])

    for wrong in (b"\x03" + value[1:], value[:-1], value + b"x"):
        with pytest.raises(PermanentError, match="a session"):
            decode_session(wrong)


def test_a_session_ends_when_its_expiry_has_passed() -> None:
    assert SessionRecord(expiry_s=10, disconnected_us=3).ends_us() == 3 + 10 * SECOND_US
    assert SessionRecord(expiry_s=10, disconnected_us=0).ends_us() == -1, "it is connected"
    assert SessionRecord(expiry_s=0xFFFFFFFF, disconnected_us=3).ends_us() == -1, "it never expires"


def test_a_will_is_due_after_its_delay_or_at_the_end_of_the_session() -> None:
    assert SessionRecord(expiry_s=10, disconnected_us=3, will=WILL).will_due_us() == 3 + 5 * SECOND_US
    assert SessionRecord(expiry_s=2, disconnected_us=3, will=WILL).will_due_us() == 3 + 2 * SECOND_US
    assert SessionRecord(expiry_s=10, disconnected_us=0, will=WILL).will_due_us() == -1
    assert RECORDS["user"].without_will() == SessionRecord(
        expiry_s=10, disconnected_us=3, queue="journal", begun=1, user="alice"
    )
