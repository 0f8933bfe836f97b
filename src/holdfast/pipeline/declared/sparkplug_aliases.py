"""What aliases of Sparkplug B mean: by the births that the log has, in its order.

    STATE/aliases/12.json      the last birth of each node and device, up to the end of batch 12      never change

1. An alias means what the last birth of its node or device before it says, by the time of the log.
2. A birth replaces all aliases of its node or device. A birth of a node ends those of its devices, too.
3. Batch n is decoded with the file of the batch before and its own births. So a batch that is repeated gives the
   same rows; its file is written before its rows are.

Births from before the pipeline's `since` are not known: metrics with their aliases alone are quarantined.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.files.replacement import replace_json
from holdfast.pipeline.declared.sparkplug import BIRTHS, AliasMeaning, address_of, decode_payload

#: The last may be decoded again, with the one before it.
_KEPT: Final = 2
Edge = tuple[str, str, str]
#: When, and what each alias means from then on.
Birth = tuple[int, dict[int, AliasMeaning]]


class Aliases:
    """The births that are known, by node and device. Can be sent to workers."""

    def __init__(self) -> None:
        self._births: Final[dict[Edge, list[Birth]]] = {}

    def find(self, edge: Edge, alias: int, ts_us: int) -> AliasMeaning | None:
        last = self._last(edge, ts_us)
        if last is None:
            return None
        if edge[2]:
            node = self._last((edge[0], edge[1], ""), ts_us)
            if node is not None and node[0] > last[0]:
                return None
        return last[1].get(alias)

    def learn(self, messages: Iterable[tuple[str, int, bytes]]) -> None:
        """Topics, times and payloads; what is no birth is left out."""
        for topic, ts_us, payload in messages:
            try:
                address = address_of(topic)
                if address.message_type not in BIRTHS:
                    continue
                found = decode_payload(payload)
            except ValueError:
                continue  # quarantined where it is decoded
            meanings = {
                raw.alias: AliasMeaning(raw.name, raw.datatype or "")
                for raw in found.metrics
                if raw.alias is not None and raw.name is not None
            }
            births = self._births.setdefault(address.edge, [])
            births.append((ts_us, meanings))
            births.sort(key=lambda birth: birth[0])

    def _last(self, edge: Edge, ts_us: int) -> Birth | None:
        births = self._births.get(edge, [])
        number = bisect_right(births, ts_us, key=lambda birth: birth[0])
        return births[number - 1] if number else None

    # ---- between batches

    @classmethod
    def before(cls, folder: Path, batch: int) -> "Aliases":
        """As they were when a batch began."""
        aliases = cls()
        known = [number for number in _numbers(folder) if number < batch]
        if known:
            for *edge, ts_us, meanings in json.loads((folder / f"{max(known)}.json").read_text(encoding="utf-8")):
                meant = {int(alias): AliasMeaning(*meaning) for alias, meaning in meanings.items()}
                aliases._births[(edge[0], edge[1], edge[2])] = [(ts_us, meant)]
        return aliases

    def save(self, folder: Path, batch: int) -> None:
        """Survives: a power loss."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = [[*edge, births[-1][0], births[-1][1]] for edge, births in sorted(self._births.items())]
        replace_json(folder / f"{batch}.json", rows)
        for number in _numbers(folder):
            if number < batch - _KEPT:
                (folder / f"{number}.json").unlink()


def _numbers(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
