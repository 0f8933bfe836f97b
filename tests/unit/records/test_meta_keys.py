"""Keys of `meta`: they sort as their numbers do, and tell what they belong to."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records import meta_keys

pytestmark = pytest.mark.compiled

ZONES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
NUMBERS = st.integers(0, 2**32 - 1)


@given(ZONES, NUMBERS, NUMBERS)
def test_generations_of_a_zone_lie_in_their_order(zone: str, a: int, b: int) -> None:
    assert (meta_keys.generation_key(zone, a) < meta_keys.generation_key(zone, b)) == (a < b)


@given(ZONES, ZONES, NUMBERS)
@example("m", "machines", 1)
@example("m", "m\x01", 0)
@example("machines", "m", 2**32 - 1)
def test_the_range_of_a_zone_holds_its_generations_and_no_others(zone: str, other: str, number: int) -> None:
    lo, hi = meta_keys.generations_of(zone)

    assert (lo <= meta_keys.generation_key(other, number) < hi) == (zone == other)


@given(ZONES, NUMBERS)
def test_the_zone_is_read_from_its_keys(zone: str, number: int) -> None:
    assert meta_keys.zone_of_key(meta_keys.zone_key(zone)) == zone
    assert meta_keys.zone_of_key(meta_keys.generation_key(zone, number)) == zone


@given(st.integers(0, 65_535), st.integers(0, 65_535))
def test_shards_lie_in_their_order_and_are_read_from_their_keys(a: int, b: int) -> None:
    for key_of in (meta_keys.ceiling_key, meta_keys.head_key, meta_keys.applied_key):
        assert (key_of(a) < key_of(b)) == (a < b)
        assert meta_keys.shard_of_key(key_of(a)) == a


def test_a_tag_has_a_range_of_its_own() -> None:
    keys = [
        meta_keys.FOLDER_KEY,
        meta_keys.zone_key("z"),
        meta_keys.generation_key("z", 1),
        meta_keys.ceiling_key(65_535),
        meta_keys.head_key(0),
        meta_keys.applied_key(65_535),
    ]
    tags = [
        meta_keys.FOLDER,
        meta_keys.ZONE,
        meta_keys.GENERATION,
        meta_keys.CEILING,
        meta_keys.HEAD,
        meta_keys.APPLIED,
    ]

    for tag in tags:
        lo, hi = meta_keys.all_of(tag)
        assert [key for key in keys if lo <= key < hi] == [keys[tags.index(tag)]]


@pytest.mark.parametrize("zone", ["", "a\0b"])
def test_a_name_that_would_break_a_key_is_refused(zone: str) -> None:
    with pytest.raises(MisuseError, match="cannot stand in a key"):
        meta_keys.generation_key(zone, 1)


@pytest.mark.parametrize("key", ["", "01", "02", "0200", "02ff", "0300000001", "03610100000001", "040001"])
def test_a_key_without_a_zone_is_refused(key: str) -> None:
    with pytest.raises(PermanentError, match="meta key"):
        meta_keys.zone_of_key(bytes.fromhex(key))


@pytest.mark.parametrize("key", ["", "04", "0400", "04000000", "030001", "070001"])
def test_a_key_without_a_shard_is_refused(key: str) -> None:
    with pytest.raises(PermanentError, match="meta key"):
        meta_keys.shard_of_key(bytes.fromhex(key))
