"""Filters between nodes: QoS 0 goes to nodes that want it, and to every node of which that is not known."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cluster import filter_exchange
from holdfast.cluster.filter_exchange import LIST_EVERY, SILENT_TICKS, FilterExchange
from holdfast.model.errors import TransientError
from holdfast.records.cluster.filter_lists import (
    FilterChange,
    FilterList,
    FilterNews,
    FilterRequest,
    FilterSender,
    FilterState,
    decode_filter_news,
    encode_filter_news,
)
from holdfast.topics.filters import parse_filter


class Cluster:
    """Nodes that tell each other what they have; a test may lose it."""

    def __init__(self, *numbers: int) -> None:
        self.live = set(numbers)
        self.nodes: dict[int, FilterExchange] = {}
        self.told: list[FilterNews] = []
        #: Whether what is told is lost.
        self.loses = False
        self.is_connected = True
        self._tasks: list[asyncio.Task[None]] = []
        for number in numbers:
            self.start(number)

    def start(self, number: int) -> FilterExchange:
        async def send(news: bytes) -> None:
            if not self.is_connected:
                raise TransientError("no connection")
            self.told.append(decode_filter_news(news))
            if not self.loses:
                for node in self.nodes.values():
                    node.received(news)

        life = bytes((number,)) * 7 + bytes((len(self._tasks),))
        node = self.nodes[number] = FilterExchange(number, send, lambda: self.live, life)
        self._tasks.append(asyncio.get_running_loop().create_task(node.run()))
        return node

    async def settle(self) -> None:
        for _turn in range(60):
            await asyncio.sleep(0)

    async def tick(self, times: int = 1) -> None:
        for _second in range(times):
            for node in self.nodes.values():
                node.tick()
            await self.settle()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def kinds(self) -> list[str]:
        told = [type(news).__name__.removeprefix("Filter") for news in self.told]
        self.told.clear()
        return told


def play(act: Callable[[Cluster], Awaitable[None]], *numbers: int) -> None:
    async def within() -> None:
        cluster = Cluster(*(numbers or (1, 2, 3)))
        try:
            await act(cluster)
        finally:
            await cluster.close()

    asyncio.run(within())


def test_a_message_goes_to_nodes_whose_filters_match() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, three = cluster.nodes.values()
        two.subscribed(parse_filter(b"a/+"))
        three.subscribed(parse_filter(b"$share/g/a/b"))
        three.subscribed(parse_filter(b"c"))
        await cluster.settle()
        assert one.nodes_for(b"a/b") == (2, 3), "a member of a group may want it as well"
        assert one.nodes_for(b"a/c") == (2,)
        assert one.nodes_for(b"b") == ()
        assert two.nodes_for(b"c") == (3,)
        two.unsubscribed(parse_filter(b"a/+"))
        await cluster.tick()
        assert one.nodes_for(b"a/c") == ()

    play(act)


def test_a_node_of_which_nothing_is_known_gets_everything() -> None:
    async def act(cluster: Cluster) -> None:
        one = cluster.nodes[1]
        assert one.nodes_for(b"a") == (2, 3)
        await cluster.tick(2)
        assert one.nodes_for(b"a") == ()
        cluster.live.add(4)
        one.tick()
        assert one.nodes_for(b"a") == (4,), "it has joined, and told nothing yet"

    play(act)


def test_a_filter_is_told_at_once_and_its_end_within_a_second() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, _three = cluster.nodes.values()
        cluster.told.clear()
        two.subscribed(parse_filter(b"a"))
        two.subscribed(parse_filter(b"a"))
        two.subscribed(parse_filter(b"b"))
        await cluster.settle()
        assert cluster.kinds() == ["Change"], "what came in one iteration is one change"
        two.unsubscribed(parse_filter(b"a"))
        two.unsubscribed(parse_filter(b"b"))
        await cluster.settle()
        assert cluster.kinds() == []
        assert one.nodes_for(b"b") == (2,)
        await cluster.tick()
        assert one.nodes_for(b"b") == ()
        assert one.nodes_for(b"a") == (2,), "another client has it"

    play(act)


def test_a_change_that_was_lost_is_noticed_within_a_second_and_the_list_asked_for() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, _three = cluster.nodes.values()
        cluster.loses = True
        two.subscribed(parse_filter(b"a"))
        await cluster.settle()
        assert one.nodes_for(b"a") == ()
        cluster.loses = False
        cluster.told.clear()
        two.tick()
        await cluster.settle()
        assert "Request" in cluster.kinds()
        assert one.nodes_for(b"a") == (2,)
        assert one.nodes_for(b"b") == (), "the list came, and was taken in"

    play(act)


def test_a_gap_means_everything_until_the_list_is_there() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, _three = cluster.nodes.values()
        cluster.loses = True
        two.subscribed(parse_filter(b"a"))
        await cluster.settle()
        two.subscribed(parse_filter(b"b"))
        await cluster.settle()
        change = cluster.told[-1]
        assert isinstance(change, FilterChange)
        one.received(encode_filter_news(change))
        assert one.nodes_for(b"x") == (2,)
        await cluster.settle()
        assert isinstance(cluster.told[-1], FilterRequest)

    play(act)


def test_a_node_that_was_restarted_begins_again() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one = cluster.nodes[1]
        cluster.nodes[2].subscribed(parse_filter(b"old"))
        await cluster.settle()
        again = cluster.start(2)
        again.subscribed(parse_filter(b"new"))
        await cluster.settle()
        assert one.nodes_for(b"x") == () or one.nodes_for(b"x") == (2,)
        await cluster.tick(2)
        assert one.nodes_for(b"old") == ()
        assert one.nodes_for(b"new") == (2,)

    play(act)


def test_a_silent_node_gets_everything_while_it_lives_and_nothing_when_it_is_gone() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, three = cluster.nodes.values()
        two.subscribed(parse_filter(b"a"))
        await cluster.settle()
        for _second in range(SILENT_TICKS):
            one.tick()
            three.tick()
            await cluster.settle()
        assert one.nodes_for(b"x") == (2,)
        cluster.live.discard(2)
        one.tick()
        assert one.nodes_for(b"a") == ()
        cluster.live.add(2)
        one.tick()
        assert one.nodes_for(b"x") == (2,), "it is back, and nothing of before counts"

    play(act)


def test_the_whole_list_is_told_every_30_s() -> None:
    async def act(cluster: Cluster) -> None:
        one = cluster.nodes[1]
        one.subscribed(parse_filter(b"a"))
        await cluster.tick()
        cluster.told.clear()
        await cluster.tick(LIST_EVERY + 1)
        lists = [news for news in cluster.told if isinstance(news, FilterList)]
        assert [news.filters for news in lists] == [(b"a",)]
        assert sum([isinstance(news, FilterState) for news in cluster.told]) == LIST_EVERY

    play(act, 1)


def test_what_could_not_be_told_is_told_with_the_whole_list() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, _three = cluster.nodes.values()
        cluster.is_connected = False
        two.subscribed(parse_filter(b"a"))
        await cluster.settle()
        cluster.is_connected = True
        for node in cluster.nodes.values():
            node.reconnected()
        assert one.nodes_for(b"x") == (2, 3), "what others told meanwhile was not heard"
        await cluster.tick(2)
        assert one.nodes_for(b"x") == ()
        assert one.nodes_for(b"a") == (2,)

    play(act)


def test_a_node_with_too_many_filters_gets_everything_until_half_of_them_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filter_exchange, "MAX_FILTERS", 10)

    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one, two, _three = cluster.nodes.values()
        names = [b"t/%d" % number for number in range(11)]
        for name in names:
            two.subscribed(parse_filter(name))
        await cluster.settle()
        assert one.nodes_for(b"x") == (2,)
        cluster.told.clear()
        await cluster.tick(3)
        assert "Request" not in cluster.kinds(), "it was told, and is not asked for"
        for name in names[:5]:
            two.unsubscribed(parse_filter(name))
        await cluster.tick()
        assert one.nodes_for(b"x") == (2,)
        two.unsubscribed(parse_filter(names[5]))
        await cluster.tick()
        assert one.nodes_for(b"x") == ()
        assert one.nodes_for(names[6]) == (2,)
        assert one.nodes_for(names[5]) == ()

    play(act)


def test_a_large_list_is_taken_in_by_slices_with_the_changes_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_exchange, "_AT_ONCE", 4)

    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one = cluster.nodes[1]
        life = b"another!"
        names = tuple([b"t/%d" % number for number in range(30)])
        one.received(encode_filter_news(FilterList(FilterSender(2, life, 5), names)))
        one.received(encode_filter_news(FilterChange(FilterSender(2, life, 6), (b"u",), (names[0],))))
        one.received(encode_filter_news(FilterState(FilterSender(2, life, 6))))
        await asyncio.sleep(0)
        assert 2 in one.nodes_for(b"x"), "it is not all there yet"
        cluster.told.clear()
        await cluster.settle()
        assert cluster.kinds() == []
        assert one.nodes_for(b"x") == ()
        assert [one.nodes_for(topic) for topic in (b"u", names[0], names[29])] == [(2,), (), (2,)]

    play(act)


def test_what_cannot_be_read_is_passed_over_and_a_filter_that_is_none_means_everything() -> None:
    async def act(cluster: Cluster) -> None:
        await cluster.tick(2)
        one = cluster.nodes[1]
        for value in (b"", b"\x09", b"\x01\x09" + bytes(20)):
            one.received(value)
        assert one.nodes_for(b"x") == ()
        one.received(encode_filter_news(FilterList(FilterSender(2, bytes(8), 1), (b"a", b"#/b"))))
        assert one.nodes_for(b"x") == (2,)

    play(act)


FILTERS = [b"a", b"a/b", b"a/+", b"#", b"+/b", b"c/#"]
TOPICS = [b"a", b"a/b", b"c", b"c/d/e", b"x"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("subscribed"), st.sampled_from(FILTERS)),
        st.tuples(st.just("unsubscribed"), st.sampled_from(FILTERS)),
        st.tuples(st.sampled_from(["lose", "keep", "tick", "settle", "restart", "reconnect"]), st.just(b"")),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_after_any_losses_a_node_gets_what_it_wants_and_no_more(steps: list[tuple[str, bytes]]) -> None:
    async def act(cluster: Cluster) -> None:
        one, two = cluster.nodes[1], cluster.nodes[2]
        wanted: list[bytes] = []
        for what, raw in steps:
            if what in ("lose", "keep"):
                cluster.loses = what == "lose"
            elif what == "tick":
                await cluster.tick()
            elif what == "settle":
                await cluster.settle()
            elif what == "reconnect":
                one.reconnected()
            elif what == "restart":
                two, wanted = cluster.start(2), []
            elif what == "subscribed":
                two.subscribed(parse_filter(raw))
                wanted.append(raw)
            elif raw in wanted:
                two.unsubscribed(parse_filter(raw))
                wanted.remove(raw)
        cluster.loses = False
        await cluster.tick(2)
        for topic in TOPICS:
            matches = any(parse_filter(raw).matches(topic) for raw in wanted)
            assert one.nodes_for(topic) == ((2,) if matches else ()), topic
        one._routes.check_invariants()

    play(act, 1, 2)
