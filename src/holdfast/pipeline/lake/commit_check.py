"""Whether transactions of Delta are safe in a store: whether it refuses to put an object that is there already.

| store                             | why two writers cannot make the same transaction                              |
|-----------------------------------|-------------------------------------------------------------------------------|
| Amazon S3                         | conditional puts, since 2024                                                  |
| what only speaks S3's protocol    | conditional puts, if it has them: it is tried here, by one object put twice   |
| either, with a locking provider   | the provider, a table of DynamoDB                                             |
| Azure, Google, HDFS               | each can refuse to replace an object, or to rename over a file                |

`deltalake` looks for newer transactions before it makes one, so that a store without conditional puts would pass any
trial with it: the gap is the moment in between. That is why the request is made here.
"""

import hashlib
import hmac
import os
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from holdfast.model.errors import SettingsError, TransientError
from holdfast.pipeline.lake.store import LakeStore

_TRIAL: Final = "_holdfast/trial"
_UNSAFE: Final = "AWS_S3_ALLOW_UNSAFE_RENAME"
_TRIES: Final = 6
_PATIENCE_S: Final = 30.0
_REFUSED: Final = 412
#: Two conditional puts met; and answers that may be others next time.
_AGAIN: Final = (409, 429, 500, 502, 503, 504)
_GOOD: Final = (200, 201, 204)
_SET: Final = (
    "use a store with conditional puts (If-None-Match), or set AWS_S3_LOCKING_PROVIDER=dynamodb and "
    "DELTA_DYNAMO_TABLE_NAME, the table with its locks"
)


def check_commits(store: LakeStore, wait: Callable[[float], None] = time.sleep) -> None:
    """SettingsError if two writers could make the same transaction in this store."""
    if store.kind != "s3":
        return
    options = store.options.values
    if os.environ.get(_UNSAFE, "").lower() in ("1", "true", "yes", "on"):
        raise SettingsError(f"the lake {store} cannot be committed safely with {_UNSAFE}; unset it, and {_SET}")
    if "AWS_S3_LOCKING_PROVIDER" in options or "AWS_ENDPOINT_URL" not in options:
        return
    if "AWS_ACCESS_KEY_ID" not in options or "AWS_SECRET_ACCESS_KEY" not in options:
        raise SettingsError(
            f"the lake {store}: {options['AWS_ENDPOINT_URL']} has to show that it has conditional puts; set "
            f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or access_key_id and secret_access_key in a settings file"
        )
    trial = f"{_TRIAL}-{uuid.uuid4().hex}"
    once = {"if-none-match": "*"}
    # Refused the first time: it was there, and the answer was lost.
    _expect(store, _ask(store, "PUT", trial, once, wait), *_GOOD, _REFUSED)
    try:
        second = _ask(store, "PUT", trial, once, wait)
    finally:
        _ask(store, "DELETE", trial, {}, wait)
    if second[0] != _REFUSED:
        raise SettingsError(
            f"the lake {store} cannot be committed safely: {options['AWS_ENDPOINT_URL']} answers {second[0]} when an "
            f"object is put that must not be there yet, so that of two writers one could lose what it wrote; {_SET}"
        )


def _expect(store: LakeStore, answer: tuple[int, str], *good: int) -> None:
    status, said = answer
    if status not in good:
        raise store.translate(
            OSError(f"status: {status} {said}"), TransientError, f"the lake {store} cannot be written"
        )


def _ask(
    store: LakeStore, method: str, path: str, headers: Mapping[str, str], wait: Callable[[float], None]
) -> tuple[int, str]:
    """Ask until there is an answer that counts; its status, and the beginning of its text."""
    said = ""
    for attempt in range(_TRIES):
        if attempt:
            wait(0.1 * 2**attempt)
        try:
            with urlopen(_request(store, method, path, headers), timeout=_PATIENCE_S) as answer:
                return answer.status, ""
        except HTTPError as error:
            with error:
                said = error.read(2000).decode(errors="replace")
            if error.code not in _AGAIN:
                return error.code, said
        except (OSError, HTTPException) as error:
            said = str(error)
    raise TransientError(f"the lake {store}: {store.options.values['AWS_ENDPOINT_URL']} does not answer: {said[:300]}")


def _request(store: LakeStore, method: str, path: str, headers: Mapping[str, str]) -> Request:
    """A request of S3, signed (Signature Version 4)."""
    options = store.options.values
    bucket, _, folder = store.address.removeprefix("s3://").partition("/")
    hosted = options.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() == "true"
    endpoint = urlsplit(options["AWS_ENDPOINT_URL"])
    key = quote("/".join(part for part in (endpoint.path.strip("/"), "" if hosted else bucket, folder, path) if part))
    body = b"" if method == "DELETE" else b"trial"
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {
        "host": endpoint.netloc,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": now,
        **headers,
    }
    if "AWS_SESSION_TOKEN" in options:
        signed["x-amz-security-token"] = options["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(signed))
    lines = [f"{name}:{signed[name]}\n" for name in sorted(signed)]
    canonical = "\n".join([method, f"/{key}", "", "".join(lines), names, signed["x-amz-content-sha256"]])
    scope = f"{now[:8]}/{options['AWS_REGION']}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    secret = f"AWS4{options['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signature = hmac.digest(secret, text.encode(), "sha256").hex()
    authorization = f"AWS4-HMAC-SHA256 Credential={options['AWS_ACCESS_KEY_ID']}/{scope}, SignedHeaders={names}"
    sent = {**signed, "authorization": f"{authorization}, Signature={signature}"}
    url = f"{endpoint.scheme}://{endpoint.netloc}/{key}"
    return Request(url, body if body else None, sent, method=method)
