"""An alias of Sparkplug B means what the last birth before it says."""

from pathlib import Path

from holdfast.pipeline.declared.sparkplug import SparkplugMetric, address_of, decode_payload, metrics_of
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from tests.unit.pipeline.declared.sparkplug_payloads import metric, payload

NODE = "spBv1.0/plant/NDATA/edge"


DEVICE = "spBv1.0/plant/DDATA/edge/press"


def told(topic: str, raw: bytes, aliases: Aliases | None = None, ts_us: int = 1_000) -> list[SparkplugMetric]:
    return list(metrics_of(address_of(topic), decode_payload(raw), ts_us, aliases or Aliases()))


def test_an_alias_means_what_the_last_birth_before_it_says(tmp_path: Path) -> None:
    aliases = Aliases()
    aliases.learn(
        [
            ("spBv1.0/plant/NBIRTH/edge", 100, payload(metric(1, "Int8", name="cold", alias=4))),
            ("spBv1.0/plant/NBIRTH/edge", 300, payload(metric(1, "Int8", name="warm", alias=4))),
            ("spBv1.0/plant/DBIRTH/edge/press", 200, payload(metric(1, "Int16", name="force", alias=9))),
            ("spBv1.0/plant/DBIRTH/edge/press", 250, b"garbage"),
            ("plant/other", 250, b""),
        ]
    )
    data = payload(metric(-1, "Int8", alias=4, typed=False))
    assert [told(NODE, data, aliases, ts_us)[0].name for ts_us in (99, 100, 299, 300)] == [None, "cold", "cold", "warm"]
    assert told(NODE, data, aliases, 100)[0].value == -1
    assert told(NODE, data, aliases, 99)[0].why == "alias 4 of plant/edge is not known: the log has no birth before it"
    force = payload(metric(-2, "Int16", alias=9, typed=False))
    assert told(DEVICE, force, aliases, 200)[0] == SparkplugMetric(
        "force", 9, "Int16", 1_700_000_000_000, -2.0, None, None
    )
    # The node was born again, and its devices were not.
    assert told(DEVICE, force, aliases, 300)[0].why is not None

    aliases.save(tmp_path, 5)
    later = Aliases.before(tmp_path, 6)
    assert told(NODE, data, later, 300)[0].name == "warm"
    assert told(NODE, data, Aliases.before(tmp_path, 5), 300)[0].why is not None
    for batch in range(6, 10):
        Aliases.before(tmp_path, batch).save(tmp_path, batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["7.json", "8.json", "9.json"]
    assert told(NODE, data, Aliases.before(tmp_path, 10), 300)[0].name == "warm"
