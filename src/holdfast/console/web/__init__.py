"""HTTP: sockets and limits, a request on its way, and what a call of the API is.

server          sockets, TLS and limits
app             a request on its way: host, login, role, parameters, answer; its checks are in `request_checks`
endpoints       what a call is; `openapi` describes all of them
event_stream    server-sent events, woken by `ticker`
static_files    the page
"""
