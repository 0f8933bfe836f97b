"""Listeners: they move bytes between sockets and the broker, and know nothing of MQTT.

listeners           all listeners of a node, each made as its `listener_spec` asks
tcp_server, tcp_link    TCP on one epoll, the fast path
stream              TCP and TLS on the transports of the event loop; `ListenerConnections` for all kinds
handshake_server    what comes before the first byte of MQTT: PROXY headers (`proxy_protocol`) and TLS (`tls`)
websocket           MQTT over WebSocket
"""
