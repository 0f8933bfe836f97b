"""Exported files against brute force over all that was published: every form, layout and filter."""

import csv
import io
import sys
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from holdfast.history.past import export as module
from holdfast.history.past.endpoints import FILES
from holdfast.history.past.questions import QuestionError
from holdfast.history.past.time_scan import ClientGoneError
from tests.unit.history.past.past_folder import FILTERS, PastFolder, places_of
from tests.unit.history.past.questioner import Questioner
from tests.unit.history.past.test_messages import publish
from tests.unit.storage.rocks.log.store import Store

HEADER = "at_us,topic,payload,payload_base64,qos,retain,client,zone,place"


def blocks(ask: Questioner, /, gone: Callable[[], bool] = lambda: False, **params: Any) -> list[bytes]:
    given = {name.rstrip("_"): [str(value)] for name, value in params.items()}
    return list(FILES["/export"](ask.pool, given, gone).blocks)


def exported(ask: Questioner, /, **params: Any) -> bytes:
    return b"".join(blocks(ask, **params))


def as_csv(shown: list[dict[str, Any]]) -> bytes:
    """Brute force: messages as `/messages` shows them, written by the standard library."""

    def text(value: dict[str, str]) -> str:
        return value.get("text", "")

    def cell(value: object) -> object:
        if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and value:
            try:
                float(value)
            except ValueError:
                return "'" + value
        return value

    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(HEADER.split(","))
    for one in shown:
        row = [
            one["at_us"],
            text(one["topic"]),
            text(one["payload"]),
            one["payload"].get("base64", ""),
            one["qos"],
            int(one["retain"]),
            one["client"],
            one["zone"],
            one["place"],
        ]
        writer.writerow([cell(value) for value in row])
    return file.getvalue().encode()


def all_shown(ask: Questioner, **params: object) -> list[dict[str, Any]]:
    return ask.pages("messages", "messages", direction="newer", full=1, limit=1000, **params)


@pytest.mark.parametrize("text", FILTERS)
def test_csv_and_json_lines_hold_what_pages_of_messages_show(past: PastFolder, ask: Questioner, text: str) -> None:
    shown = all_shown(ask, filter=text)
    assert len(shown) == len(past.expected(text))
    assert exported(ask, filter=text, format="csv") == as_csv(shown)
    assert exported(ask, filter=text) == b"".join(msgspec.json.encode(one) + b"\n" for one in shown)


def test_a_range_a_zone_and_a_client_choose_their_own(past: PastFolder, ask: Questioner) -> None:
    written = past.expected()
    from_us, to_us = written[len(written) // 4].position_us, written[len(written) // 2].position_us
    for chosen in ({"from_": from_us, "to": to_us}, {"zone": "machines"}, {"client": "publisher-1"}):
        shown = all_shown(ask, **chosen)
        assert 0 < len(shown) < len(written)
        assert exported(ask, format="csv", **chosen) == as_csv(shown)
    inside = exported(ask, from_=from_us, to=to_us).splitlines()
    assert len(inside) == len(past.expected(from_us=from_us, before_us=to_us))


@pytest.mark.parametrize("text", ["#", "plant/+/temp", "nothing/#"])
def test_parquet_holds_every_message_with_its_shard_in_the_order_of_places(
    past: PastFolder, ask: Questioner, text: str
) -> None:
    table = pq.read_table(pa.BufferReader(exported(ask, filter=text, format="parquet")))
    wanted = past.expected(text)
    assert list(zip(table["offset"].to_pylist(), table["shard"].to_pylist(), strict=True)) == places_of(wanted)
    assert table["topic"].to_pylist() == [one.topic.decode() for one in wanted]
    assert table["payload"].to_pylist() == [one.payload for one in wanted]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_blocks_of_any_size_make_the_same_file(
    past: PastFolder, ask: Questioner, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = exported(ask, format=form)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1000)
    small = blocks(ask, format=form)
    if form == "parquet":
        assert pq.read_table(pa.BufferReader(b"".join(small))) == pq.read_table(pa.BufferReader(whole))
    else:
        assert b"".join(small) == whole
        assert len(small) > 10
    assert past.expected()


def test_any_bytes_and_what_a_spreadsheet_would_calculate_come_back(store: Store) -> None:
    payloads = [b"\xff\x00", b'a "quote", a comma', b"two\r\nlines", b"=1+1", b"-5", b"+x", b"@a", b"\tt", b"", b"\r"]
    publish(store, b"a\x01", *payloads)
    publish(store, b"=a,b", *payloads)
    with Questioner(store.folder) as ask:
        data = exported(ask, format="csv")
        assert data == as_csv(all_shown(ask))
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        assert [row["topic"] for row in rows] == [""] * len(payloads) + ["'=a,b"] * len(payloads)
        found = [(row["payload"], row["payload_base64"]) for row in rows[: len(payloads)]]
        base64 = b64encode(b"\xff\x00").decode()
        assert found[:5] == [("", base64), ('a "quote", a comma', ""), ("two\r\nlines", ""), ("'=1+1", ""), ("-5", "")]


def test_a_payload_is_whole_whatever_its_size(store: Store) -> None:
    payload = b"x" * (3 << 20)
    publish(store, b"a", payload)
    with Questioner(store.folder) as ask:
        (row,) = exported(ask, format="csv").splitlines()[1:]
        assert row.split(b",")[2] == payload
        assert msgspec.json.decode(exported(ask))["payload"] == {"text": payload.decode()}


def test_a_file_without_messages_is_whole(store: Store) -> None:
    publish(store, b"a", b"1")
    with Questioner(store.folder) as ask:
        assert exported(ask, filter="b") == b""
        assert exported(ask, filter="b", format="csv").decode() == HEADER + "\r\n"
        assert pq.read_table(pa.BufferReader(exported(ask, filter="b", format="parquet"))).num_rows == 0


def test_what_comes_while_a_file_is_made_is_not_in_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1)
    publish(store, b"a", b"1", b"2", b"3")
    with Questioner(store.folder) as ask:
        making = FILES["/export"](ask.pool, {}, lambda: False).blocks
        first = next(making)
        publish(store, b"a", b"4")
        assert len(b"".join([first, *making]).splitlines()) == 3


def test_a_client_that_leaves_ends_its_export(store: Store) -> None:
    publish(store, b"a", b"1")
    with Questioner(store.folder) as ask:
        with pytest.raises(ClientGoneError):
            blocks(ask, gone=lambda: True)
        assert ask.pool.busy() == 0


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"format": "xls"}, "format"),
        ({"filter": "a/#/b"}, "filter"),
        ({"zone": "x"}, "zone"),
        ({"limit": "1"}, "limit"),
    ],
)
def test_a_wrong_question_names_its_parameter(store: Store, params: dict[str, Any], parameter: str) -> None:
    publish(store, b"a", b"1")
    with Questioner(store.folder) as ask, pytest.raises(QuestionError) as refused:
        blocks(ask, **params)
    assert refused.value.parameter == parameter


def test_parquet_without_arrow_is_refused_and_the_rest_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, b"a", b"1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with Questioner(store.folder) as ask:
        with pytest.raises(QuestionError, match=r"install holdfast\[history\]") as refused:
            blocks(ask, format="parquet")
        assert (refused.value.status, refused.value.parameter) == (501, "format")
        assert exported(ask, format="csv").count(b"\n") == 2
