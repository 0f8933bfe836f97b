"""Events of the stand-in, filtered and counted as the console does."""

from __future__ import annotations

from typing import Any

from tests.browser.stand_in_history import History, Params


def list_events(events: list[dict[str, Any]], history: History, params: Params, now_us: int) -> dict[str, Any]:
    """A page of the events that match."""

    def one(name: str) -> str:
        return params.get(name, [""])[0]

    since_us = history._time(params, "since", 0)
    until_us = history._time(params, "until", now_us + 1)
    topic_filter = history._filter({"filter": [one("topic") or "#"]})
    found = [
        event
        for event in events
        if since_us <= event["at_us"] < until_us
        and (not one("client") or event["client"] == one("client") or event["client"].endswith(f"\0{one('client')}"))
        and (not one("topic") or (event["topic"] and topic_filter.matches(event["topic"].encode())))
    ]
    counts: dict[str, int] = {}
    for event in found:
        counts[event["reason"]] = counts.get(event["reason"], 0) + event["count"]
    found = [event for event in found if not one("reason") or event["reason"] == one("reason")]
    start, limit = int(one("cursor") or "0"), int(one("limit") or "100")
    more = start + limit < len(found)
    page = {"events": found[start : start + limit], "next_cursor": str(start + limit) if more else None}
    density = _density(found, since_us, until_us, int(one("buckets") or "0"))
    return page | {"counts_by_reason": counts, "as_of_us": now_us, "density": density}


def _density(found: list[dict[str, Any]], since_us: int, until_us: int, buckets: int) -> dict[str, Any] | None:
    if not buckets:
        return None
    step_us = max(1, -(-(until_us - since_us) // buckets))
    counts = [0] * -(-(until_us - since_us) // step_us)
    for event in found:
        counts[(event["at_us"] - since_us) // step_us] += event["count"]
    return {"from_us": since_us, "to_us": until_us, "step_us": step_us, "counts": counts, "total": sum(counts)}
