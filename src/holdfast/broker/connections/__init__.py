"""Connections of clients: opened by listeners, let in by CONNECT, watched, closed.

Read `connection_handler` (what listeners call), `connections` (from accept to close), then `connect_handler` (from
CONNECT to CONNACK, where `ClientLocks` admits one takeover at a time for each client id).
"""
