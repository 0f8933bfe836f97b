"""A commit log in memory gives its receipt at once."""

import pytest

from holdfast.durable.commit import Batch, MemoryLog
from holdfast.durable.sessions.session_store import MemorySessions

pytestmark = pytest.mark.compiled


def test_a_batch_has_its_receipt_at_once() -> None:
    log = MemoryLog(MemorySessions())

    receipts = [log.write(Batch(number)) for number in (1, 2)]

    assert [receipt.number for receipt in receipts if receipt is not None] == [1, 2]
    assert not log.busy()
