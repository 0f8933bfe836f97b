"""Whatever its parameters, path and body are, a request is answered with a status that the API document describes.

500 is in no document.
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.console.api import ENDPOINTS
from holdfast.console.cursors import encode_cursor
from holdfast.console.web.endpoints import Endpoint
from holdfast.console.web.openapi import make_document
from holdfast.control.words import ClientRows
from tests.unit.console.fake_history import fake_history
from tests.unit.console.visitor import console_place

PATHS: dict[str, Any] = make_document(ENDPOINTS, "1")["paths"]
NO_CLIENTS = ClientRows((), last=True)
#: Cursors that no list gave, though they look like it.
CURSORS = [encode_cursor(place) for place in (["a", "b"], [10**30, "a"], ["a", "b", "c"], [1.5, "a"], [1, "a", "b"])]
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(CURSORS),
    st.sampled_from(
        ["", "0", "-1", "1e9", "9" * 30, "#", "$share/a/b", "$replay/-1h/a", "null", "[]", "\0", "-1h", "a/+"]
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Endpoint, str, str, bytes]:
    """A call with parameters of its own and of no call, and any body."""
    endpoint = draw(st.sampled_from([one for one in ENDPOINTS if one.path != "stream"]))
    known = [*(parameter.name for parameter in endpoint.parameters), "node"]
    names = st.sampled_from(known) | st.text(max_size=10)
    query = urlencode(draw(st.lists(st.tuples(names, TEXTS), max_size=4)), errors="replace")
    name = draw(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
    path = endpoint.path.replace("{id}", quote(name, safe="")).replace("{name}", quote(name, safe=""))
    # By the name, and not drawn: long lists of requests are near what is drawn for one example.
    path = path.replace("{kind}", ("client", "user", "address", "x")[len(name) % 4])
    path = path.replace("{value}", quote(name, safe=""))
    fields = [] if endpoint.body is None else list(endpoint.body.__struct_fields__)
    objects = st.dictionaries(st.sampled_from(fields) if fields else st.text(max_size=5), JSON, max_size=3)
    body = draw(st.one_of(st.binary(max_size=30), objects.map(lambda value: json.dumps(value).encode())))
    return endpoint, path, query, body


@given(asked=st.lists(requests(), min_size=1, max_size=10))
@settings(max_examples=50)
def test_no_request_is_answered_with_a_status_that_is_not_described(
    asked: list[tuple[Endpoint, str, str, bytes]],
) -> None:
    async def work(folder: Path) -> None:
        async with fake_history(folder) as history, console_place(folder, history.find) as place:
            answers: dict[str, Any] = {
                "/sessions": {"sessions": []},
                "/events": {"events": [], "matched": 0},
                "/messages": {"messages": []},
            }
            history.answers |= answers
            asked_words = ("client", "subscriptions", "kick", "end_session", "purge_queue", "reload", "log_level")
            for word in (*asked_words, "block", "unblock"):
                place.broker.refusals[word] = ("not_found", "no")
            place.visitor.console.clients.take_rows(NO_CLIENTS)
            admin = place.as_("admin")
            for endpoint, path, query, body in asked:
                raw = body if endpoint.method != "GET" else b""
                answer = await admin.ask(endpoint.method, f"/api/v1/{path}?{query}", raw=raw)
                described = PATHS[f"/api/v1/{endpoint.path}"][endpoint.method.lower()]["responses"]
                assert str(answer.status) in described, (endpoint.path, query, answer.status, answer.body)

    with TemporaryDirectory() as folder:
        asyncio.run(work(Path(folder)))
