"""The MQTT client of a task of Spark: blocking, MQTT 5, with the options of a writer."""

from typing import Final

from holdfast.client.blocking_client import BlockingClient
from holdfast.client.errors import RefusedError
from holdfast.client.options import ConnectionOptions, OptionNames, read_password, tls_context
from holdfast.pipeline.sink.write_options import WriteOptions

#: Long, because rows may take their time to be computed; a broker forgets a worker whose machine is gone.
KEEP_ALIVE_S: Final = 600
_NAMES: Final = OptionNames(
    ca="option caFile",
    cert="option certFile",
    password_env="option passwordEnv",
    password_file="option passwordFile",
    use_tls="mqtts:// in the option broker",
    trust="see the option caFile",
    identify="the options certFile and keyFile",
)


def open_client(
    options: WriteOptions, client_id: str, *, session_expiry_s: int = 0, retry: bool = True
) -> BlockingClient:
    """A client that is not connected yet. RefusedError if a file or a variable is not where the task runs.

    Without `retry`, a connection that is lost is an error at once.
    """
    try:
        password = read_password(options.password_env, options.password_file, _NAMES)
        tls = tls_context(options.ca_file, options.cert_file, options.key_file, names=_NAMES) if options.tls else None
    except ValueError as error:
        raise RefusedError(f"{error}; it has to be on every worker") from None
    return BlockingClient(
        ConnectionOptions(
            host=options.host,
            port=options.port,
            tls=tls,
            client_id=client_id,
            user_name=options.user,
            password=password,
            session_expiry_s=session_expiry_s,
            keep_alive_s=KEEP_ALIVE_S,
            max_inflight=options.max_inflight,
            timeout_s=options.timeout_s,
            retry_for_s=options.retry_for_s if retry else 0.0,
            names=_NAMES,
        )
    )


def check_connection(options: WriteOptions, client_id: str, *, session_expiry_s: int = 0) -> None:
    """Connect and leave. LostError and RefusedError if that is not possible."""
    with open_client(options, client_id, session_expiry_s=session_expiry_s, retry=False) as client:
        client.connect()
