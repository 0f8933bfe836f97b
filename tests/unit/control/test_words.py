"""The words: every request has a body and an answer, and every body survives its encoding."""

import msgspec
import pytest

from holdfast.control.frames import decode_body, encode_body
from holdfast.control.words import WORDS, KickRequest, LogLevelRequest, Nothing, SessionRequest, Watch

REQUESTS: list[msgspec.Struct] = [
    Nothing(),
    Watch(stats=True, clients=True),
    SessionRequest("press-7"),
    KickRequest("press-7", "bye"),
    LogLevelRequest("debug"),
]


@pytest.mark.parametrize("body", REQUESTS, ids=lambda body: type(body).__name__)
def test_a_body_comes_back_as_it_was(body: msgspec.Struct) -> None:
    assert decode_body(encode_body(body), type(body)) == body


def test_every_word_names_its_structs() -> None:
    for word, (request, answer) in WORDS.items():
        assert word.replace("_", "").isalpha()
        assert issubclass(request, msgspec.Struct)
        assert issubclass(answer, msgspec.Struct)
