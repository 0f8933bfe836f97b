"""Connections of clients: opened by listeners, let in by CONNECT, watched, closed.

Read `connection_handler` (what listeners call), `connections` (from accept to close), `connect_handler` (from CONNECT
to CONNACK), then `takeovers` (one at a time for each client id) and `channel_freeze` (the old channel stops).
"""
