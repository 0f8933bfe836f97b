"""Records of generations: what goes in comes out, and what makes no sense is refused."""

import pickle
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.generations import (
    Generation,
    Parameter,
    decode_generation,
    encode_generation,
    family_name,
    family_parts,
)
from holdfast.records.meta_keys import generation_key

pytestmark = pytest.mark.compiled

I64 = st.integers(-(2**63), 2**63 - 1)

PARAMETERS = st.dictionaries(st.text(max_size=8), I64 | st.text(max_size=8) | st.lists(I64, max_size=4).map(tuple))


@given(PARAMETERS)
def test_parameters_of_every_kind_come_back(parameters: dict[str, Parameter]) -> None:
    generation = Generation("z", 1, "bitmask", parameters, 0, (3,), 0)

    assert decode_generation(generation_key("z", 1), encode_generation(generation)).parameters == parameters


def test_equal_parameters_have_equal_bytes_in_whatever_order_they_were_given() -> None:
    one = Generation("z", 1, "learned", {"a": 1, "b": 2}, 0, (3,), 0)
    other = Generation("z", 1, "learned", {"b": 2, "a": 1}, 0, (3,), 0)

    assert encode_generation(one) == encode_generation(other)


@given(PARAMETERS)
def test_spark_sends_generations_to_its_executors(parameters: dict[str, Parameter]) -> None:
    generation = Generation("z", 4, "learned", parameters, 100, (3, 5), 90, end_us=7, last_serials=(1, 2), edition=8)

    found = pickle.loads(pickle.dumps(generation))

    assert asdict(found) == asdict(generation)


def test_a_generation_is_open_until_it_is_sealed() -> None:
    generation = Generation("z", 4, "learned", {"a": 1}, 100, (3, 5), 90, inherits=3)

    assert (generation.end_us, generation.last_serials) == (0, (0, 0))

    sealed = generation.sealed(200, (7, 8))

    assert (sealed.end_us, sealed.last_serials) == (200, (7, 8))
    assert encode_generation(sealed) != encode_generation(generation)
    assert (sealed.zone, sealed.number, sealed.inherits, sealed.shards) == ("z", 4, 3, (3, 5))


def test_a_generation_cannot_end_before_it_starts() -> None:
    with pytest.raises(MisuseError, match="cannot end at 99"):
        Generation("z", 1, "learned", {}, 100, (3,), 90).sealed(99, (1,))


def test_every_shard_has_a_last_serial() -> None:
    with pytest.raises(MisuseError, match="2 shards and 1 last serials"):
        Generation("z", 1, "learned", {}, 100, (3, 4), 90).sealed(101, (1,))


def test_a_generation_under_the_key_of_another_is_damage() -> None:
    value = encode_generation(Generation("z", 1, "learned", {}, 0, (3,), 0))

    with pytest.raises(PermanentError, match="of another"):
        decode_generation(generation_key("z", 2), value)


def test_a_parameter_of_a_kind_that_is_not_known_is_refused() -> None:
    value = encode_generation(Generation("z", 1, "l", {"name": 7}, 0, (), 0))

    with pytest.raises(PermanentError, match="kind 9"):
        decode_generation(generation_key("z", 1), value.replace(b"name\x01", b"name\x09"))


@given(st.integers(0, 65_535), st.integers(0, 2**32 - 1))
def test_the_name_of_a_family_tells_shard_and_generation(shard: int, generation: int) -> None:
    assert family_parts(family_name(shard, generation)) == (shard, generation)


@pytest.mark.parametrize(
    "name", ["default", "meta", "log-1-1", "log-00001-1", "log-00001-0000000x", "old-00001-00000001"]
)
def test_other_families_hold_no_messages(name: str) -> None:
    assert family_parts(name) is None
