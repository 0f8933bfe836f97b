"""An MQTT client for 3.1.1 and 5: the public one, and the one of all commands.

Read `core`, the state machine without I/O, with its parts `message`, `errors` and `subscriptions`; then
`state`, what a session has to remember, and `state_file`, the same on disk. `asyncio_client` and `blocking_client` are
the shells that drive the core, on `shell` (what they share), `transport`, `websocket` and `options`.
"""

from holdfast.client.asyncio_client import Client
from holdfast.client.blocking_client import BlockingClient
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions, tls_context

__all__ = ["BlockingClient", "Client", "ConnectionOptions", "LostError", "RefusedError", "tls_context"]
