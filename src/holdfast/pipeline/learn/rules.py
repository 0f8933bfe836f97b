"""Which tokens of a topic level are names, and which are values: the rules of learning, without Spark.

All topics are gone through together, level by level. Those that look alike so far share a *beginning*:

    fleet/d1/temp  fleet/d2/temp  fleet/d2/gps        beginning        tokens of the next level
                                                      (nothing)        fleet          1 name
                                                      fleet            d1 d2 …        values: from here on they are +
                                                      fleet/+          temp gps       2 names

1. Up to `few` different tokens are names, each. That is how a broker learns, too (`topics/learned.py`).
2. Under a beginning that stands for many (`fleet/+` for every device), a token that recurs is a name, and one that does
   not is a value. So twelve measures are twelve names, though a broker that sees only so many tokens takes them for
   values; unless there are very many of them, or they look like numbers.
3. Under one that stands for few, a token that stands out is a name: with far more topics below it than its neighbours
   have. So a fleet beside a hundred topics of chance keeps its name. If it turns out in the end that all below it
   looks as it does below the others, it was just a large one, and is one of them (`learner.py`).
4. All others of a level are `+` together: what is below them is counted as one.

The numbers behind these words are below. A `TokenBar` says them for one beginning, so that a `TopicCounting` hands over
the tokens that pass it and no others: what comes here is bounded, however many topics there are.
"""

from typing import Final, NamedTuple

from holdfast.topics.learned import DEFAULT_THRESHOLDS
from holdfast.topics.learned_trie import threshold

#: Beginnings that are followed at a time; tokens of lesser ones fall to the values of their level.
MAX_BEGINNINGS: Final = 1_000
#: Tokens that are looked at one by one, of all beginnings of a level together.
MAX_TOKENS: Final = 10_000

#: Rule 2: a name is under a tenth of what the beginning stands for at least; a hundred are enough, three the least.
_RECURS_SHARE: Final = 10
_RECURS_ENOUGH: Final = 100
_RECURS_LEAST: Final = 3
#: Rule 2: recurring tokens beyond this number are not names. Rule 3: no more are looked at.
MAX_NAMES: Final = 64
#: Rule 3: so many times the topics that a token has usually.
_STANDS_OUT_TIMES: Final = 20


class LevelCount(NamedTuple):
    """What was counted of the next level under one beginning; all but `ended` is about topics that have that level."""

    beginning: int
    #: Different tokens, topics, messages, and bytes of their payloads.
    values: int
    topics: int
    messages: int
    #: Topics below a token: the median.
    typical_topics: int
    #: Different beginnings, token included, that go on: what `+` would stand for, if all were values.
    going_on: int
    #: Σ n·log2 n over the messages n of each token: entropy comes from it.
    n_log_n: float
    #: Tokens that are a number; a UUID; hexadecimal; have a digit in them.
    numbers: int
    uuids: int
    hexadecimal: int
    with_digit: int
    #: In their order.
    first: str
    last: str
    #: Topics that end with the beginning itself: how many, their messages, their bytes.
    ended: tuple[int, int, int]


class TokenCount(NamedTuple):
    beginning: int
    token: str
    #: Under how many different ones that the beginning stands for, and how many of these go on below it.
    parents: int
    going_on: int
    topics: int
    messages: int


class TokenBar(NamedTuple):
    """What a token has to have, to be looked at."""

    beginning: int
    parents: int
    topics: int


def name_limit(depth: int) -> int:
    """The number of tokens of a level up to which all of them are names."""
    return threshold(DEFAULT_THRESHOLDS, depth)


def token_bar(level: LevelCount, depth: int, parents: int) -> TokenBar:
    """`parents`: how many different ones the beginning stands for."""
    if stands_for_many(parents):
        recurs = max(_RECURS_LEAST, min(-(-parents // _RECURS_SHARE), _RECURS_ENOUGH))
        return TokenBar(level.beginning, recurs, 1)
    if level.values <= name_limit(depth):
        return TokenBar(level.beginning, 1, 1)
    return TokenBar(level.beginning, 1, _STANDS_OUT_TIMES * level.typical_topics)


def stands_for_many(parents: int) -> bool:
    return parents > name_limit(1)


def names_stand_out(level: LevelCount, depth: int, parents: int) -> bool:
    """Whether what is a name here is one by rule 3."""
    return not stands_for_many(parents) and level.values > name_limit(depth)


def choose_names(level: LevelCount, depth: int, parents: int, passed: list[TokenCount]) -> list[TokenCount]:
    """Of the tokens that passed the bar, most topics first, those that are names."""
    if names_stand_out(level, depth, parents):
        return passed[:MAX_NAMES]
    if not stands_for_many(parents) or len(passed) <= name_limit(depth):
        return passed
    with_digit = sum(1 for token in passed if any(character.isdigit() for character in token.token))
    if len(passed) > MAX_NAMES or 2 * with_digit > len(passed):
        return []
    return passed
