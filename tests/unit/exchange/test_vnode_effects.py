"""Parts of batches wait for their vnodes, each for its own."""

from collections.abc import Sequence

import pytest

from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.sessions.session_store import KeepProgress
from holdfast.exchange.loop_state import SealedBatch
from holdfast.exchange.pending_publish import Effect, FollowUp
from holdfast.exchange.vnode_effects import VnodeEffects
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.vnode_keys import vnode_of

pytestmark = pytest.mark.compiled

#: Of vnode 0 and 1, of two.
S, P = "s1", "p1"


def batch(number: int, *effects: Effect, messages: Sequence[Message] = ()) -> SealedBatch:
    sealed = Batch(number)
    sealed.messages.extend(messages)
    return SealedBatch(sealed, list(effects), 0)


def effect(session_id: str) -> Effect:
    return FollowUp(session_id, lambda: None)


def message(session_id: str, qos: int, payload: bytes = b"") -> Message:
    return Message(b"t", payload, qos, ClientId(session_id), 1)


def decided(waiting: VnodeEffects, *by_vnode: int) -> list[Effect]:
    """The effects that a receipt covers, in their order."""
    found: list[Effect] = []
    receipt = Receipt(min(by_vnode), by_vnode=by_vnode)
    part = waiting.next_decided(receipt)
    while part is not None:
        found += part.effects
        part = waiting.next_decided(receipt)
    return found


def test_an_effect_waits_for_the_vnode_of_its_session() -> None:
    assert (vnode_of(S, 2), vnode_of(P, 2)) == (0, 1)
    waiting = VnodeEffects(2, 1000, 1000)
    s, p, later = effect(S), effect(P), effect(S)
    assert waiting.add(batch(1, s, p)) == []
    assert waiting.add(batch(2, later)) == []
    assert decided(waiting, 0, 0) == []
    assert decided(waiting, 2, 0) == [s, later]
    assert not waiting.is_settled()
    assert decided(waiting, 2, 2) == [p]
    assert waiting.is_settled()


def test_effects_of_one_vnode_keep_their_order() -> None:
    """Q6: across the batches of one receipt."""
    waiting = VnodeEffects(2, 1000, 1000)
    effects = [effect(P) for _number in range(6)]
    for number in range(3):
        waiting.add(batch(number + 1, effects[2 * number], effect(S), effects[2 * number + 1]))
    assert decided(waiting, 0, 2) == effects[:4]
    assert decided(waiting, 0, 3) == effects[4:]


def test_an_effect_of_no_session_waits_for_nothing() -> None:
    waiting = VnodeEffects(2, 1000, 1000)
    unbound = Effect(None, b"")
    assert waiting.add(batch(1, effect(S), unbound)) == [unbound]


def test_qos_0_messages_are_passed_on_until_their_vnode_has_them() -> None:
    """What a replay that joins the present has to be sent: the log does not have it, and live clients do."""
    waiting = VnodeEffects(2, 1000, 1000)
    s, p = message(S, 0), message(P, 0)
    waiting.add(batch(1, messages=[s, message(S, 1), p]))
    assert waiting.passed_on() == [s, p]
    assert decided(waiting, 1, 0) == []
    assert waiting.passed_on() == [p]
    assert waiting.next_decided(Receipt(1, by_vnode=(1, 1))) is not None
    assert waiting.passed_on() == [p], "it is carried out"
    assert decided(waiting, 1, 1) == []
    assert waiting.passed_on() == []


def test_a_vnode_is_full_by_its_own_share() -> None:
    """A11: of bytes, of effects, and of steps that nothing waits for."""
    waiting = VnodeEffects(2, 2000, 1000)
    waiting.add(batch(1, messages=[message(P, 1, bytes(1000))]))
    assert (waiting.is_full(P), waiting.is_full(S), waiting.any_full()) == (True, False, True)
    decided(waiting, 1, 1)
    assert (waiting.is_full(P), waiting.any_full()) == (False, False)
    many = VnodeEffects(2, 1_000_000, 4)
    many.add(batch(1, *[effect(S) for _number in range(3)], effect(P)))
    assert (many.is_full(S), many.is_full(P)) == (True, False)
    steps = VnodeEffects(2, 2000, 1000)
    sealed = batch(1)
    sealed.batch.progress.append(KeepProgress(S, {}, bytes(1001)))
    steps.add(sealed)
    assert (steps.is_full(S), steps.is_full(P)) == (True, False)
