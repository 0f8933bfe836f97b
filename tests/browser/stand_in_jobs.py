"""Jobs of the stand-in: they run until a test moves them on."""

from __future__ import annotations

from typing import Any, Final


class Jobs:
    """Jobs by id, the newest first."""

    def __init__(self) -> None:
        self.items: Final[list[dict[str, Any]]] = []

    def shown(self) -> dict[str, Any]:
        return {"items": self.items, "next_cursor": None}

    def find(self, id_: str) -> dict[str, Any] | None:
        return next((job for job in self.items if job["id"] == id_), None)

    def start(self, given: dict[str, Any], user: str, now_us: int) -> dict[str, Any]:
        replay = {
            "filter": given["filter"], "from_us": int(given["from"]), "until_us": int(given["until"]),
            "speed": given["speed"], "prefix": given["prefix"], "user": given.get("user", ""),
        }  # fmt: skip
        job = {
            "id": f"j{len(self.items) + 1}", "kind": "replay", "state": "running", "replay": replay, "by": user,
            "began_us": now_us, "ended_us": None, "messages": 0, "bytes": 0, "at_us": None, "share": None,
            "place": "", "detail": "", "command": f"holdfast replay --from={given['from']} -- {given['filter']}",
        }  # fmt: skip
        self.items.insert(0, job)
        return job
