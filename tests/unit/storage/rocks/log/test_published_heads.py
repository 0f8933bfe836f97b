"""The durable heads in a file: what other processes read while the broker writes."""

from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, TransientError
from holdfast.storage.rocks.log.published_heads import HEADS_NAME, Head, PublishedHeads, read_heads


def test_a_half_written_slot_is_no_head(tmp_path: Path) -> None:
    heads = PublishedHeads(tmp_path, {3: Head(10, 1), 4: Head(20, 2)})
    heads.publish(4, 30, 3)
    assert read_heads(tmp_path) == {3: Head(10, 1), 4: Head(30, 3)}
    heads.close()
    content = bytearray((tmp_path / HEADS_NAME).read_bytes())
    content[-20] ^= 1
    (tmp_path / HEADS_NAME).write_bytes(content)
    with pytest.raises(TransientError, match="half written"):
        read_heads(tmp_path)


def test_shards_that_come_later_are_added(tmp_path: Path) -> None:
    heads = PublishedHeads(tmp_path, {0: Head(10, 1)})
    heads.add({7: Head(5, 2)})
    heads.publish(7, 6, 3)
    heads.publish(0, 11, 2)
    heads.close()
    assert read_heads(tmp_path) == {0: Head(11, 2), 7: Head(6, 3)}


def test_a_file_that_is_none_of_ours_is_damage(tmp_path: Path) -> None:
    (tmp_path / HEADS_NAME).write_bytes(b"x" * 64)
    with pytest.raises(PermanentError, match="is damaged"):
        read_heads(tmp_path)
