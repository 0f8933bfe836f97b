"""Cursors: short, exact, and refused when they are not what was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cursors import Cursor, decode_cursor, encode_cursor

pytestmark = pytest.mark.compiled

T = 1_700_000_000_000_000
ZONES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
DONE = st.dictionaries(st.integers(0, 65_535), st.integers(0, 2**63 - 1), max_size=20)


@given(ZONES, DONE)
def test_a_cursor_survives_being_written(zone: str, done: dict[int, int]) -> None:
    cursor = Cursor(zone, done)

    assert decode_cursor(encode_cursor(cursor)) == cursor


@given(ZONES, DONE)
def test_equal_cursors_have_equal_texts_that_fit_into_a_url(zone: str, done: dict[int, int]) -> None:
    text = encode_cursor(Cursor(zone, done))

    assert text == encode_cursor(Cursor(zone, dict(reversed(done.items()))))
    assert text.replace("-", "").replace("_", "").isalnum()
    assert text.isascii()


def test_a_cursor_of_sixteen_shards_stays_short() -> None:
    assert len(encode_cursor(Cursor("telemetry", {shard: T + shard * 999 for shard in range(16)}))) < 100


def test_reading_goes_on_behind_what_is_done_and_starts_at_since_where_nothing_is() -> None:
    cursor = Cursor("z", {3: 100})

    assert cursor.from_us(3, 50) == 101
    assert cursor.from_us(4, 50) == 50


@given(st.data())
def test_a_changed_character_is_noticed(data: st.DataObject) -> None:
    text = encode_cursor(Cursor("telemetry", {0: T, 1: T + 5}))
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABCabc019-_ =+/é").filter(lambda character: character != text[at]))

    with pytest.raises(PermanentError, match="cursor"):
        decode_cursor(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("extra", ["\n", " ", "=", "!", "é"])
def test_a_character_too_many_is_noticed(extra: str) -> None:
    text = encode_cursor(Cursor("telemetry", {0: T, 1: T + 5}))

    for at in range(len(text) + 1):
        with pytest.raises(PermanentError, match="cursor"):
            decode_cursor(text[:at] + extra + text[at:])


def test_a_cursor_that_was_cut_is_noticed() -> None:
    text = encode_cursor(Cursor("telemetry", {0: T, 1: T + 5}))

    for length in range(len(text)):
        with pytest.raises(PermanentError, match="cursor"):
            decode_cursor(text[:length])


@given(st.text(max_size=40), st.booleans())
def test_garbage_is_refused(text: str, dressed: bool) -> None:
    with pytest.raises(PermanentError, match="cursor"):
        decode_cursor("c1-" + text if dressed else text)


def test_a_long_text_is_not_decoded_and_not_repeated() -> None:
    with pytest.raises(PermanentError, match="is no cursor") as caught:
        decode_cursor("c1-" + "A" * 3_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "cursor",
    [Cursor("", {}), Cursor("z" * 256, {}), Cursor("z", {65_536: 1}), Cursor("z", {1: -1}), Cursor("z", {1: 2**63})],
    ids=repr,
)
def test_what_does_not_fit_is_our_own_mistake(cursor: Cursor) -> None:
    with pytest.raises(MisuseError, match="cursor"):
        encode_cursor(cursor)
