"""The record of a data folder: other formats and damage are refused."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.folder import FORMAT, DataFolder, decode_folder, encode_folder

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("format_version", [0, FORMAT + 1])
def test_a_folder_of_another_format_is_refused_before_anything_else_is_read(format_version: int) -> None:
    value = encode_folder(DataFolder(format_version, 0, "9.0"))

    with pytest.raises(PermanentError, match=f"has format {format_version}, this Holdfast reads"):
        decode_folder(value)


def test_text_that_is_not_utf8_is_damage() -> None:
    value = encode_folder(DataFolder(FORMAT, 0, "abc"))

    with pytest.raises(PermanentError, match="the creator is not UTF-8"):
        decode_folder(value[:-1] + b"\xff")
