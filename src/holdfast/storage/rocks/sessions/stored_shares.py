"""What groups of a cluster ask of a stored session: its shared subscriptions, and what it has done for them.

A leader asks about sessions of other nodes, and may be behind them: nothing is looked up in the log here.
"""

from holdfast.durable.sessions.session_store import StoredShares
from holdfast.records.session.assignments import assignments_range, decode_assignments
from holdfast.records.session.session_keys import session_key, subscription_key
from holdfast.records.session.session_record import decode_session
from holdfast.records.session.sessions import decode_subscription
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.topics.filters import SHARE_PREFIX


def read_shares(rows: FamilySlice, client_id: str) -> StoredShares | None:
    """None if no session is stored. PermanentError if a record of it cannot be read."""
    value = rows.get(session_key(client_id))
    if value is None:
        return None
    lo = subscription_key(client_id, SHARE_PREFIX)
    at = len(lo) - len(SHARE_PREFIX)
    found = rows.items(lo, lo[:-1] + bytes((lo[-1] + 1,)))
    subscriptions = [decode_subscription(key[at:], stored) for key, stored in found]
    done = [decode_assignments(stored) for _key, stored in rows.items(*assignments_range(client_id))]
    return StoredShares(decode_session(value), subscriptions, {row.vnode: row for row in done})
