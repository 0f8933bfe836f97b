"""Fingerprints are part of keys on disk: the same in every process."""

import pytest

from holdfast.topics.learned_ids import FINGERPRINT_BYTES, fingerprint

pytestmark = pytest.mark.compiled


def test_a_fingerprint_never_changes() -> None:
    assert fingerprint(b"plant/+/temp").hex() == "ffeaa761b0cb4973"
    assert len(fingerprint(b"")) == FINGERPRINT_BYTES


def test_fewer_bits_make_it_collide() -> None:
    found = {fingerprint(b"%d" % number, bits=2) for number in range(100)}

    assert len(found) == 4
    assert all(len(value) == FINGERPRINT_BYTES for value in found)
