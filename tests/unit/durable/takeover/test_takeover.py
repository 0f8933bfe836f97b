"""A connecting channel decides by versions, touches nothing it may not, and lets go of what it does not take.

The decisions alone: `tests/behaviour/connections/test_takeover_registry.py` shows that the broker carries them out.
"""

import pytest

from holdfast.durable.takeover.registry import NOBODY, ChannelVersion, CommitLost, Committed, Registration, Unsettled
from holdfast.durable.takeover.takeover import (
    Accept,
    Action,
    Begin,
    Commit,
    End,
    Open,
    Read,
    Refuse,
    Takeover,
    Thaw,
    Withdraw,
)
from holdfast.model.errors import MisuseError
from holdfast.model.ids import ClientId
from holdfast.model.reasons import SERVER_BUSY, SERVER_UNAVAILABLE

pytestmark = pytest.mark.compiled

CLIENT = ClientId("pump-7")
NO_ANSWER = Unsettled("no answer in 1 s")


def channel(at_ms: int, revision: int = NOBODY) -> Registration:
    return Registration(CLIENT, 1, at_ms, ChannelVersion(at_ms, 1, at_ms), 0, revision)


#: The channel that connects in these tests; others are older below 5 and newer above.
CURR = channel(5)


def taking(old: Registration | None, *, clean_start: bool = False, max_retries: int = 3) -> Takeover:
    """A takeover whose commit is under way."""
    takeover = Takeover(CURR, clean_start=clean_start, max_retries=max_retries)
    takeover.start(old)
    if old is not None:
        takeover.began()
    return takeover


def refused(actions: list[Action], reason: int) -> Refuse:
    last = actions[-1]
    assert isinstance(last, Refuse)
    assert last.reason == reason
    return last


@pytest.mark.parametrize("clean_start", [False, True])
def test_a_channel_older_than_the_local_view_is_refused_and_touches_nothing(clean_start: bool) -> None:
    """R1 HAPPY FAIL, and R6: a clean start discards nothing either."""
    takeover = Takeover(CURR, clean_start=clean_start)
    actions = takeover.start(channel(6, revision=9))
    assert len(actions) == 1
    refused(actions, SERVER_BUSY)
    assert (takeover.state, takeover.path) == ("refused", "happy_fail")


@pytest.mark.parametrize("clean_start", [False, True])
def test_a_channel_older_than_the_real_one_is_refused_late(clean_start: bool) -> None:
    """The decision of R2 (EXPENSIVE FAIL) and R6: to refuse before the session is opened or discarded."""
    takeover = taking(None, clean_start=clean_start)
    actions = takeover.committed(CommitLost(channel(6, revision=9)))
    assert len(actions) == 1
    refused(actions, SERVER_BUSY)
    assert (takeover.state, takeover.path) == ("refused", "expensive_fail")


def test_a_late_refusal_ends_the_channel_that_the_newer_one_has_replaced() -> None:
    """The decision of R2: what was begun with is registered no more, so it is not set free to work on."""
    old = channel(3, revision=7)
    actions = taking(old).committed(CommitLost(channel(6, revision=9)))
    assert actions[0] == End(old, CURR)
    assert len(actions) == 2


def test_a_newer_channel_just_discovered_is_taken_over_instead() -> None:
    """The decision of R3 (MOST EXPENSIVE PATH)."""
    takeover = taking(channel(3, revision=7))
    found = channel(4, revision=8)
    assert takeover.committed(CommitLost(found)) == [End(channel(3, revision=7), CURR), Begin(found, CURR)]
    assert takeover.began() == [Commit(CURR, 8)]
    won = CURR.at_revision(9)
    assert takeover.committed(Committed(9)) == [End(found, won), Open(won, False)]
    assert takeover.path == "most_expensive"


def test_retries_are_bounded_and_end_with_server_busy() -> None:
    """The decision of R3: each loss to another older channel is one retry."""
    takeover = Takeover(channel(50), clean_start=False, max_retries=3)
    takeover.start(None)
    for retry in range(3):
        found = channel(10 + retry, revision=10 + retry)
        assert takeover.committed(CommitLost(found))[-1] == Begin(found, channel(50))
        takeover.began()
    actions = takeover.committed(CommitLost(channel(20, revision=20)))
    assert "3 retries" in refused(actions, SERVER_BUSY).log_line
    assert actions[0] == End(channel(12, revision=12), channel(50))
    assert (takeover.state, takeover.path, takeover.retries) == ("refused", "most_expensive", 3)


def test_a_view_that_is_right_costs_one_commit() -> None:
    """R4 HAPPY ENDING: begin, commit at the cached revision, end."""
    old = channel(3, revision=7)
    takeover = Takeover(CURR, clean_start=False)
    assert takeover.start(old) == [Begin(old, CURR)]
    assert takeover.began() == [Commit(CURR, 7)]
    won = CURR.at_revision(8)
    assert takeover.committed(Committed(8)) == [End(old, won), Open(won, False)]
    assert takeover.opened(session_present=True) == [Accept(won, True)]
    assert (takeover.state, takeover.path) == ("accepted", "happy_ending")
    takeover.check_invariants()


def test_a_client_id_in_use_by_nobody_needs_no_begin() -> None:
    """R4 for a first connect."""
    takeover = Takeover(CURR, clean_start=False)
    assert takeover.start(None) == [Commit(CURR, NOBODY)]
    assert takeover.committed(Committed(1)) == [Open(CURR.at_revision(1), False)]


def test_a_registry_that_went_backwards_aborts_with_an_info_line() -> None:
    """The decision of R5: the real one is older than what was known, and than this channel."""
    takeover = taking(channel(4, revision=7))
    actions = takeover.committed(CommitLost(channel(2, revision=9)))
    line = refused(actions, SERVER_BUSY).log_line
    assert channel(2).version.encode() in line
    assert channel(4).version.encode() in line
    assert (takeover.state, takeover.path) == ("refused", "odd")


def test_an_old_channel_that_closed_by_itself_is_no_oddity() -> None:
    """R5 does not concern nobody: the decision is to let in a client that comes back faster than the news."""
    takeover = taking(channel(4, revision=7))
    assert takeover.committed(CommitLost(None)) == [End(channel(4, revision=7), CURR), Commit(CURR, NOBODY)]
    assert isinstance(takeover.committed(Committed(9))[0], Open)


def test_an_old_channel_found_again_at_another_revision_is_not_begun_twice() -> None:
    takeover = taking(channel(4, revision=7))
    assert takeover.committed(CommitLost(channel(4, revision=9))) == [Commit(CURR, 9)]
    assert takeover.committed(Committed(10))[0] == End(channel(4, revision=7), CURR.at_revision(10))


def test_an_unsettled_commit_that_had_succeeded_is_found_by_reading() -> None:
    old = channel(3, revision=7)
    takeover = taking(old)
    assert takeover.committed(NO_ANSWER) == [Read(CLIENT)]
    won = CURR.at_revision(8)
    assert takeover.read(won) == [End(old, won), Open(won, False)]
    assert takeover.path == "unsettled"


def test_an_unsettled_commit_that_came_late_is_found_by_the_next_one() -> None:
    takeover = taking(channel(3, revision=7))
    takeover.committed(NO_ANSWER)
    assert takeover.read(channel(3, revision=7)) == [Commit(CURR, 7)]
    assert takeover.committed(CommitLost(CURR.at_revision(8)))[-1] == Open(CURR.at_revision(8), False)


def test_a_registry_that_stays_unsettled_ends_with_server_unavailable() -> None:
    """R11: the old channel works on, and a commit that shows up late is withdrawn."""
    old = channel(3, revision=7)
    takeover = taking(old, max_retries=2)
    assert takeover.committed(NO_ANSWER) == [Read(CLIENT)]
    assert takeover.read(NO_ANSWER) == [Read(CLIENT)]
    actions = takeover.read(NO_ANSWER)
    assert actions[:2] == [Withdraw(CURR), Thaw(old, CURR)]
    assert NO_ANSWER.why in refused(actions, SERVER_UNAVAILABLE).log_line
    assert (takeover.state, takeover.path) == ("refused", "unsettled")


def test_commits_that_never_settle_end_with_server_unavailable_although_reads_do() -> None:
    old = channel(3, revision=7)
    takeover = taking(old, max_retries=2)
    takeover.committed(NO_ANSWER)
    assert takeover.read(old) == [Commit(CURR, 7)]
    refused(takeover.committed(NO_ANSWER), SERVER_UNAVAILABLE)


def test_a_replaced_channel_is_ended_even_if_the_one_that_replaced_it_never_knew() -> None:
    """Our commit took effect unseen and was replaced by a newer one, which ends us but not the one before."""
    old = channel(3, revision=7)
    takeover = taking(old)
    takeover.committed(NO_ANSWER)
    actions = takeover.read(channel(6, revision=9))
    assert actions[0] == End(old, CURR)
    refused(actions, SERVER_BUSY)


def test_a_taker_that_leaves_before_its_commit_leaves_the_old_channel_working() -> None:
    """R11: and the answer that comes afterwards changes nothing."""
    old = channel(3, revision=7)
    takeover = Takeover(CURR, clean_start=False)
    takeover.start(old)
    assert takeover.abandon() == [Thaw(old, CURR)]
    assert takeover.began() == []
    assert takeover.abandon() == []
    assert takeover.state == "abandoned"


def test_a_taker_that_leaves_before_it_starts_has_nothing_to_undo() -> None:
    """R11: nothing was begun."""
    assert Takeover(CURR, clean_start=False).abandon() == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Committed(8), [End(channel(3, 7), CURR.at_revision(8)), Withdraw(CURR.at_revision(8))]),
        (CommitLost(channel(3, 9)), [Thaw(channel(3, 7), CURR)]),
        (CommitLost(channel(4, 8)), [End(channel(3, 7), CURR)]),
        (CommitLost(channel(6, 8)), [End(channel(3, 7), CURR)]),
        (CommitLost(channel(2, 8)), [End(channel(3, 7), CURR)]),
        (CommitLost(None), [End(channel(3, 7), CURR)]),
    ],
)
def test_a_taker_that_leaves_during_its_commit_waits_for_the_answer(
    answer: Committed | CommitLost, expected: list[Action]
) -> None:
    """R11: only an old channel that is still registered goes on."""
    takeover = taking(channel(3, revision=7))
    assert takeover.abandon() == []
    assert takeover.committed(answer) == expected
    assert takeover.state == "abandoned"
    takeover.check_invariants()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_taker_that_leaves_in_doubt_asks_what_became_of_its_commit(replaced: bool) -> None:
    """R11: an answer that tells nothing is asked for again, also when nobody is there to be told."""
    old, won = channel(3, revision=7), CURR.at_revision(8)
    takeover = taking(old)
    takeover.abandon()
    assert takeover.committed(NO_ANSWER) == [Read(CLIENT)]
    if replaced:
        assert takeover.read(won) == [End(old, won), Withdraw(won)]
    else:
        assert takeover.read(old) == [Withdraw(CURR), Thaw(old, CURR)]
    assert takeover.state == "abandoned"


def test_a_taker_that_leaves_while_its_session_opens_is_withdrawn() -> None:
    takeover = taking(None)
    takeover.committed(Committed(8))
    assert takeover.abandon() == [Withdraw(CURR.at_revision(8))]
    assert takeover.opened(session_present=True) == []
    takeover.check_invariants()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("clean_start", [False, True])
@pytest.mark.parametrize("way", ["nobody", "old", "discovered", "unsettled"])
def test_session_present_tells_the_truth_on_every_way_in(way: str, clean_start: bool, stored: bool) -> None:
    """R12: 1 exactly if a session exists when this channel owns it, and it did not ask for a clean start."""
    takeover = taking(None if way == "nobody" else channel(3, revision=7), clean_start=clean_start)
    if way == "discovered":
        takeover.committed(CommitLost(channel(4, revision=8)))
        takeover.began()
    if way == "unsettled":
        takeover.committed(NO_ANSWER)
        opening = takeover.read(CURR.at_revision(9))
    else:
        opening = takeover.committed(Committed(9))
    assert opening[-1] == Open(CURR.at_revision(9), clean_start)
    accept = Accept(CURR.at_revision(9), stored and not clean_start)
    assert takeover.opened(session_present=stored) == [accept]


def test_equal_times_are_settled_by_the_tie_break() -> None:
    """R7: in one millisecond the higher node stays, whoever comes first."""
    low = Registration(CLIENT, 1, 1, ChannelVersion(5, 1, 9))
    high = Registration(CLIENT, 2, 1, ChannelVersion(5, 2, 1))
    assert isinstance(Takeover(high, clean_start=False).start(low.at_revision(1))[0], Begin)
    assert isinstance(Takeover(low, clean_start=False).start(high.at_revision(1))[0], Refuse)


def test_answers_that_nobody_asked_for_are_bugs() -> None:
    takeover = Takeover(CURR, clean_start=False)
    with pytest.raises(MisuseError, match="new, not beginning"):
        takeover.began()
    with pytest.raises(MisuseError, match="not committing"):
        takeover.committed(Committed(1))
    with pytest.raises(MisuseError, match="not reading"):
        takeover.read(None)
    with pytest.raises(MisuseError, match="not opening"):
        takeover.opened(session_present=False)
    takeover.start(None)
    with pytest.raises(MisuseError, match="committing, not new"):
        takeover.start(None)
