"""Zones, patterns, topics and leases against what was published and what the commands print."""

import json
from pathlib import Path

from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.storage.rocks.log.leases import note_broken, renew_lease
from tests.unit.history.past.past_folder import PastFolder
from tests.unit.history.past.questioner import Questioner
from tests.unit.storage.rocks.log.store import Store, zone


def test_zones_tell_their_generations_and_how_many_messages_each_has(past: PastFolder, ask: Questioner) -> None:
    answer = {one["name"]: one for one in ask("zones")["zones"]}
    assert sorted(answer) == ["default", "machines"]
    assert answer["machines"]["filters"] == ["plant/7/#", "plant/8/#"]
    for name, found in answer.items():
        own = [message for message in past.store.written if message.shard in found["shards"]]
        assert found["messages"] == len(own)
        assert (found["oldest_us"], found["newest_us"]) == (
            min(message.position_us for message in own),
            max(message.position_us for message in own),
        )
        assert found["dropped_at_most"] == 0
        records = [generation.record for generation in past.store.zone_log(name).live]
        assert [one["number"] for one in found["generations"]] == [record.number for record in records]
        for one, record in zip(found["generations"], records, strict=True):
            assert (one["start_us"], one["end_us"]) == (record.start_us, record.end_us or None)
            inside = [m for m in own if m.position_us >= record.start_us and m.position_us < (record.end_us or 2**63)]
            assert one["messages"] == len(inside)


def test_what_retention_dropped_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, default=zone("default", layout="timeline"))
    store.publish("a", "b", "c")
    store.rotate()
    store.publish("d")
    store.drop_oldest()
    store.settle()
    with Questioner(tmp_path) as ask:
        (found,) = ask("zones")["zones"]
        assert (found["messages"], found["dropped_at_most"]) == (1, 3)
        assert found["oldest_us"] == found["newest_us"] == store.written[-1].position_us
    store.close()


def test_a_folder_without_messages_has_no_times(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with Questioner(tmp_path) as ask:
        (found,) = ask("zones")["zones"]
        assert (found["messages"], found["oldest_us"], found["newest_us"]) == (0, None, None)
        assert ask("messages")["messages"] == []
        assert ask("state")["topics"] == []
        assert ask("topics")["topics"] == []
    store.close()


def test_patterns_and_leases_are_what_the_commands_print(tmp_path: Path) -> None:
    store = Store(tmp_path, default=zone("default", layout="learned"))
    for number in range(40):
        store.publish(f"plant/{number}/temp", f"plant/{number % 3}/flow")
    renew_lease(tmp_path, "archive", {0: store.written[5].position_us}, 1_700_000_000_000_000)
    note_broken(tmp_path, renew_lease(tmp_path, "lake", {0: 1}, 5), 10, "the disk is short of space")
    with Questioner(tmp_path) as ask:
        patterns, leases = ask("patterns"), ask("leases")
    store.close()
    run = CliRunner()
    printed = json.loads(run.invoke(app, ["zones", "patterns", "--data", str(tmp_path), "--json"]).stdout)
    assert patterns == printed
    assert any("+" in row["pattern"] for row in patterns)
    lease, broken = json.loads(run.invoke(app, ["leases", "--data", str(tmp_path), "--json"]).stdout)
    assert leases[1] == broken
    assert (broken["name"], broken["broken_us"], broken["why"]) == ("lake", 10, "the disk is short of space")
    assert {**leases[0], "age_s": 0} == {**lease, "age_s": 0}
    assert leases[0]["behind_s"] > 0


def test_topics_are_patterns_and_names_that_were_seen_lately(tmp_path: Path) -> None:
    store = Store(tmp_path, default=zone("default", layout="learned"))
    for number in range(40):
        store.publish(f"plant/{number}/temp", "status")
    with Questioner(tmp_path) as ask:
        found = ask("topics", limit=1000)["topics"]
        assert {one["name"]: one["messages"] for one in found if one["is_pattern"]}["status"] == 40
        seen = {one["name"]: one["last_us"] for one in found if not one["is_pattern"]}
        assert seen == {message.topic.decode(): message.position_us for message in store.written}
        below = ask("topics", under="plant", q="/39/")["topics"]
        assert [one["name"] for one in below if not one["is_pattern"]] == ["plant/39/temp"]
        assert ask("topics", under="plant", limit=1)["more"] is True
        assert not [one for one in ask("topics", under="nothing")["topics"] if not one["is_pattern"]]
    store.close()
