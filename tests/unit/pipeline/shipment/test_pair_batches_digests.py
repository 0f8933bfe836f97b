"""Digests of messages: the same for the same messages in any order and in any parts."""

from holdfast.pipeline.shipment.pair_batches import Digest, digest_of, parse_digest, sum_digests

VALUES = [b"%d" % number for number in range(50)]


def test_order_and_parts_do_not_matter() -> None:
    whole = digest_of(VALUES)

    assert digest_of(reversed(VALUES)) == whole
    assert sum_digests([digest_of(VALUES[:20]), digest_of([]), digest_of(VALUES[20:])]) == whole


def test_a_missing_doubled_or_changed_message_matters() -> None:
    whole = digest_of(VALUES)

    assert digest_of(VALUES[1:]) != whole
    assert digest_of([*VALUES, VALUES[0]]) != whole
    assert digest_of([b"other", *VALUES[1:]]) != whole


def test_a_digest_comes_back_from_its_text() -> None:
    for digest in (Digest(), digest_of(VALUES)):
        assert parse_digest(str(digest)) == digest
