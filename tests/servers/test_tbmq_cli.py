"""`holdfast queue import-tbmq`, as an operator runs it."""

import json
from pathlib import Path

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from bench.queues.redis_server import RedisServer
from holdfast.cli.main import app
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from tests.servers.entries import Steps, append, entries, payloads
from tests.servers.test_tbmq_import import put


@pytest.fixture
def tbmq(redis: RedisServer) -> str:
    """The URL of a TBMQ with two queues."""
    with Redis(port=redis.port, db=4) as raw:
        raw.flushdb()
        put(raw, "one", 1, 1, "eA==")
        put(raw, "one", 2, 2, "eQ==")
        put(raw, "two", 1, 1, "eg==")
    return redis.url.replace("/0", "/4")


def run(folder: Path, options: RedisOptions, *arguments: str) -> Result:
    settings = ["--set", f"redis.url={options.urls[0]}", "--set", f"redis.prefix={options.prefix}"]
    settings += ["--set", f"storage.data={folder / 'data'}"]
    words = ["queue", "import-tbmq", "--resume", str(folder / "resume.json"), *settings, *arguments]
    return CliRunner().invoke(app, words)


def test_queues_are_brought_and_counted(
    tbmq: str, redis_options: RedisOptions, redis_store: RedisQueues, steps: Steps, tmp_path: Path
) -> None:
    done = run(tmp_path, redis_options, "--to", "redis", "--from-redis", tbmq)

    assert done.exit_code == 0, done.output
    assert "2 queues, 3 messages, 2 sessions made; 0 had expired" in done.output
    assert steps(payloads(redis_store, "one")) == [b"x", b"y"]
    assert not (tmp_path / "resume.json").exists()


def test_what_is_left_out_is_told_and_can_be_brought_later(
    tbmq: str, redis_options: RedisOptions, redis_store: RedisQueues, steps: Steps, tmp_path: Path
) -> None:
    steps(append(redis_store, "two", entries(1)))
    first = run(tmp_path, redis_options, "--to", "redis", "--from-redis", tbmq, "--json")
    assert first.exit_code == 1
    assert json.loads(first.stdout)["refused"] == [["two", "the queue holds 1 other messages already"]]
    steps(redis_store.acknowledge([("two", [1])]))

    again = run(tmp_path, redis_options, "--to", "redis", "--from-redis", tbmq, "--json")

    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["messages"] == 3
    assert steps(payloads(redis_store, "one")) == [b"x", b"y"]
    assert steps(payloads(redis_store, "two")) == [b"z"]


def test_usage_that_cannot_work_is_refused(tbmq: str, redis_options: RedisOptions, tmp_path: Path) -> None:
    for arguments in (
        ["--to", "redis"],
        ["--to", "redis", "--from-redis", tbmq, "--from-postgres", "postgresql://127.0.0.1/x"],
        ["--to", "nowhere", "--from-redis", tbmq],
        ["--to", "redis", "--from-redis", "http://127.0.0.1"],
    ):
        done = run(tmp_path, redis_options, *arguments)
        assert done.exit_code == 2, arguments
    (tmp_path / "resume.json").write_text('{"to": "postgres", "base": 5}', encoding="utf-8")
    done = run(tmp_path, redis_options, "--to", "redis", "--from-redis", tbmq)
    assert done.exit_code == 2
    assert "into postgres" in done.output
