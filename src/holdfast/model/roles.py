"""Roles of those who look at a broker or direct it: each may do what the ones before it may.

viewer     numbers, clients, subscriptions; no payloads
reader     payloads and the past
operator   ends connections and sessions, empties queues
admin      access, settings, tokens
"""

from typing import Final

VIEWER: Final = "viewer"
READER: Final = "reader"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"

#: From the least to the most.
ROLES: Final = (VIEWER, READER, OPERATOR, ADMIN)


def includes(role: str, needed: str) -> bool:
    """Whether a user with `role` may do what needs `needed`. Requires: both are of ROLES."""
    return ROLES.index(role) >= ROLES.index(needed)
