"""Digests of nodes: who differs from the majority stops, and who was not compared counts for neither side."""

from holdfast.cluster.vnodes.digest_watch import DIGEST_EVERY, DigestWatch
from holdfast.records.cluster.control import Beat, VnodeProgress

AT = DIGEST_EVERY
RIGHT, WRONG, OTHER = b"r" * 16, b"w" * 16, b"o" * 16


def beat(digest: bytes, at: int = AT, vnode: int = 0) -> Beat:
    return Beat((VnodeProgress(vnode, at + 5, at, at, digest),))


def watch(digest: bytes = RIGHT, node: int = 1) -> DigestWatch:
    found = DigestWatch(node, 2)
    found.applied(0, AT, digest)
    return found


def test_only_multiples_are_noted_and_the_last_goes_into_beats() -> None:
    found = DigestWatch(1, 1)
    assert found.last(0) == (0, bytes(16))
    found.applied(0, AT - 1, WRONG)
    assert found.last(0) == (0, bytes(16))
    found.applied(0, AT, RIGHT)
    found.applied(0, AT + 1, WRONG)
    assert found.last(0) == (AT, RIGHT)


def test_equal_nodes_are_no_divergence() -> None:
    assert watch().compare({1: beat(RIGHT), 2: beat(RIGHT), 3: beat(RIGHT)}) == []


def test_of_three_nodes_the_one_that_differs_stops_and_the_others_go_on() -> None:
    beats = {1: beat(RIGHT), 2: beat(RIGHT), 3: beat(WRONG)}
    for node in (1, 2):
        (found,) = watch(RIGHT, node).compare(beats)
        assert (found.vnode, found.nodes, found.sequence, found.must_stop) == (0, (3,), AT, False)
    (found,) = watch(WRONG, 3).compare(beats)
    assert (found.nodes, found.must_stop, found.is_outvoted) == ((1, 2), True, True)


def test_without_a_majority_all_stop() -> None:
    two = {1: beat(RIGHT), 2: beat(WRONG)}
    assert watch(RIGHT, 1).compare(two)[0].must_stop
    assert watch(WRONG, 2).compare(two)[0].must_stop
    assert not watch(WRONG, 2).compare(two)[0].is_outvoted, "nobody says which of two is right"
    three = {1: beat(RIGHT), 2: beat(WRONG), 3: beat(OTHER)}
    for node, digest in ((1, RIGHT), (2, WRONG), (3, OTHER)):
        assert watch(digest, node).compare(three)[0].must_stop


def test_a_node_that_was_not_compared_counts_for_neither_side() -> None:
    found = watch()
    assert not found.compare({1: beat(RIGHT), 2: beat(WRONG), 3: beat(OTHER, at=9 * AT)})[0].must_stop
    found.applied(0, 9 * AT, RIGHT)
    assert found.compare({1: beat(RIGHT), 2: beat(WRONG), 3: beat(OTHER, at=9 * AT)})[0].must_stop


def test_places_that_nodes_beat_at_different_times_are_compared_as_long_as_they_are_remembered() -> None:
    found = DigestWatch(1, 1)
    for number in range(1, 400):
        found.applied(0, number * AT, RIGHT)
    assert found.compare({2: beat(WRONG, at=300 * AT)}) != []
    assert DigestWatch(1, 1).compare({2: beat(WRONG)}) == [], "nothing to compare with yet"
    forgotten = DigestWatch(1, 1)
    for number in range(1, 400):
        forgotten.applied(0, number * AT, RIGHT)
    assert forgotten.compare({2: beat(WRONG, at=AT)}) == []


def test_a_divergence_goes_with_its_node_or_when_it_was_installed_again() -> None:
    found = watch()
    assert found.compare({2: beat(WRONG), 3: beat(RIGHT)}) != []
    assert found.compare({3: beat(RIGHT)}) == []
    assert found.compare({2: beat(WRONG), 3: beat(RIGHT)}) != []
    found.applied(0, 2 * AT, RIGHT)
    assert found.compare({2: beat(RIGHT, at=2 * AT), 3: beat(RIGHT)}) == []
    assert found.compare({2: beat(WRONG), 3: beat(RIGHT)}) == [], "an older beat says nothing more"


def test_vnodes_are_compared_each_for_itself() -> None:
    found = watch()
    found.applied(1, AT, WRONG)
    (divergence,) = found.compare({2: beat(RIGHT, vnode=1), 3: beat(RIGHT)})
    assert divergence.vnode == 1
    assert watch().compare({2: beat(WRONG, vnode=7)}) == [], "a vnode that is not here"
