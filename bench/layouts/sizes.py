"""How much is stored: the sizes that are compared."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.storage.rocks.bench.layout_bench import Figures


@dataclass(frozen=True)
class Size:
    messages: int
    devices: int

    @classmethod
    def parse(cls, text: str) -> Size:
        messages, times, devices = text.partition("x")
        if not times or not messages.isdecimal() or not devices.isdecimal() or not int(messages) or not int(devices):
            raise SystemExit(f"--sizes: {text!r} is no size; right would be messages x devices: 1000000x1000")
        return cls(int(messages), int(devices))

    @property
    def title(self) -> str:
        return f"{self.messages:,} messages of {self.devices:,} devices"


#: Figures by size and layout.
Results = dict[Size, dict[str, Figures]]
