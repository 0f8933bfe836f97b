"""A store shows its credentials nowhere, whatever goes wrong."""

import pickle

import pytest

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake.commit_check import check_commits
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.lake.store_options import StoreOptions

SECRET = "planted/Secret+of=the-lake"


@pytest.fixture
def store() -> LakeStore:
    values = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    return LakeStore("s3://lakes/plant", "s3", "lakes", StoreOptions(values | {"AWS_REGION": "us-east-1"}, (SECRET,)))


def test_a_store_shows_its_address_alone(store: LakeStore) -> None:
    assert str(store) == "s3://lakes/plant"
    assert SECRET not in repr(store) + repr(store.sub("part"))
    assert pickle.loads(pickle.dumps(store)) == store


def test_credentials_are_taken_out_of_errors(store: LakeStore) -> None:
    quoted = "planted%2FSecret%2Bof%3Dthe-lake"
    with pytest.raises(PermanentError) as error, store.errors(PermanentError, "it cannot be read"):
        raise OSError(f"\x1b[31m↳\x1b[0m GET http://host/?sig={quoted}\n   ↳ with {SECRET}\n")

    assert str(error.value) == "it cannot be read: GET http://host/?sig=***: with ***"
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Client error with status 404: <Code>NoSuchBucket</Code>", "there is no lakes in the store; make it first"),
        (
            "status: 403 <Code>InvalidAccessKeyId</Code>",
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        ("Client error with status 403 Forbidden", "the store refuses what it was shown"),
    ],
)
def test_what_no_retry_helps_says_what_to_set(store: LakeStore, text: str, said: str) -> None:
    assert said in str(store.translate(OSError(text), TransientError, "the lake cannot be written"))
    assert isinstance(store.translate(OSError(text), TransientError, ""), SettingsError)


def test_what_may_pass_is_what_the_caller_says(store: LakeStore) -> None:
    assert isinstance(store.translate(OSError("connection reset"), TransientError, ""), TransientError)


def test_a_store_that_does_not_answer_is_asked_again_and_then_named(store: LakeStore) -> None:
    waited: list[float] = []
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:1 does not answer"):
        check_commits(store, waited.append)
    assert len(waited) == 5


def test_unsafe_renames_are_refused(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    with pytest.raises(SettingsError, match="cannot be committed safely with AWS_S3_ALLOW_UNSAFE_RENAME; unset it"):
        check_commits(store)


def test_a_store_that_cannot_show_conditional_puts_is_refused(store: LakeStore) -> None:
    values = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    with pytest.raises(SettingsError, match="has to show that it has conditional puts; set AWS_ACCESS_KEY_ID"):
        check_commits(LakeStore("s3://lakes/plant", "s3", "lakes", StoreOptions(values, ())))
