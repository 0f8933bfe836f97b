"""Options of the queue backend in Redis."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.model.errors import SettingsError
from holdfast.model.passwords import hide_passwords

_SCHEMES = ("redis", "rediss", "unix")


@dataclass(frozen=True)
class RedisOptions:
    """The servers, the durability and the timeouts.

    1. With `cluster`, `urls` are members to ask for the others. Without, they are servers of which one is the master:
       the next one is asked when the last one is away or only a copy.
    2. User and password stand in the URL, `rediss://` means TLS; all members of a cluster are reached the same way.
    """

    urls: tuple[str, ...]
    cluster: bool = False
    #: The prefix of every key, before its brace: several brokers may share a Redis.
    prefix: str = "holdfast:"
    #: How many replicas must have a write before it is done (`WAIT`); 0 for the master alone.
    replicas: int = 0
    replicas_timeout_s: float = 1.0
    #: How long one reply may take, and how long a call is repeated before it fails.
    timeout_s: float = 5.0
    give_up_s: float = 15.0
    #: To each server, at most.
    connections: int = 4
    #: Whether calls are pipelined, without waiting for replies.
    pipelined: bool = True
    #: The certificate authority of `rediss://`, as a file; the system's if empty. Certificate and key of the client.
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""

    def __post_init__(self) -> None:
        if not self.urls:
            raise SettingsError("Redis has no URL; right would be redis://127.0.0.1:6379/0")
        for url in self.urls:
            if urlsplit(url).scheme not in _SCHEMES:
                raise SettingsError(
                    f"a Redis URL begins with redis://, rediss:// or unix://, not {hide_passwords(url)}"
                )
        if "{" in self.prefix or "}" in self.prefix:
            raise SettingsError(f"the prefix of Redis keys is {self.prefix!r}: a brace in it would scatter a queue")
        if self.cluster and any(urlsplit(url).path.strip("/") not in ("", "0") for url in self.urls):
            raise SettingsError("a Redis Cluster has database 0 alone")
        if self.replicas < 0 or min(self.replicas_timeout_s, self.timeout_s, self.give_up_s) <= 0:
            raise SettingsError("replicas of Redis are 0 or more, and its times are above 0 s")
        if self.replicas and self.replicas_timeout_s >= self.timeout_s:
            raise SettingsError("replicas_timeout_s must be below timeout_s, or an answer would be cut off")
        if self.connections < 1:
            raise SettingsError("at least one connection to Redis is needed")
