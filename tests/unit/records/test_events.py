"""Events as lines of JSON: readable by people, and by later versions."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.events import CUT, Event, cut, decode_event, encode_event

pytestmark = pytest.mark.compiled

FULL = Event(1, "expired", "press-7", "plant/1", shard=2, from_us=10, to_us=20, count=3, detail="why")


@pytest.mark.parametrize("event", [FULL, Event(1, "damaged", "", "")], ids=["full", "empty"])
def test_an_event_comes_back_from_its_line(event: Event) -> None:
    line = encode_event(event)

    assert line.endswith(b"\n")
    assert decode_event(line) == event


def test_empty_fields_are_left_out_and_unknown_ones_are_skipped() -> None:
    assert encode_event(Event(1, "damaged", "", "")) == b'{"time_us":1,"reason":"damaged","count":1}\n'
    assert decode_event(b'{"time_us":1,"reason":"damaged","count":1,"later":[]}') == Event(1, "damaged", "", "")


@pytest.mark.parametrize("line", [b"x", b"[]", b'{"time_us":"1"}', b'{"count":true}', b'{"reason":1}'])
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(PermanentError):
        decode_event(line)


def test_an_event_covers_the_positions_that_it_concerns() -> None:
    assert [FULL.covers(2, position) for position in (9, 10, 20, 21)] == [False, True, True, False]
    assert not FULL.covers(1, 15)
    assert not Event(1, "denied", "", "").covers(0, 0)


def test_long_texts_are_cut_between_characters() -> None:
    assert cut("é" * 3, 6) == "é" * 3
    assert cut("é" * 3, 5) == "éé" + CUT
