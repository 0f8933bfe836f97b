"""A declaration as a small picture, for `--show`: what happens to a message, from top to bottom."""

from holdfast.pipeline.declared.declaration import QUARANTINE, Declaration, OnFail

_QUARANTINE = f"──▶ {QUARANTINE}"


def shown(declared: Declaration) -> str:
    rows: list[tuple[str, str, str]] = []
    options = declared.source.options
    since = options.get("startingTime") or options.get("startingOffsets") or "earliest"
    rows.append(("source", f"{declared.source.where}, {options.get('topicFilter', 'all topics')}, since {since}", ""))
    columns = ", ".join(f"{name} {kind}" for name, kind in declared.decode.types().items())
    rows.append(("decode", f"{declared.decode.format}: {columns}", f"else {_QUARANTINE}"))
    for rule in declared.rules:
        ends = {OnFail.QUARANTINE: _QUARANTINE, OnFail.DROP: "──▶ dropped, counted", OnFail.FAIL: "──▶ stop"}
        rows.append((f"rule {rule.name}", rule.where, f"else {ends[rule.on_fail]}"))
    if declared.deduplicate is not None:
        wanted = declared.deduplicate
        rows.append(("deduplicate", f"by {', '.join(wanted.by)} within {wanted.within}", "else ──▶ dropped, counted"))
    rows.append(("rows", ", ".join(declared.row_types()), _sinks(declared, "rows")))
    for each in declared.aggregates:
        measures = ", ".join(f"{name} = {text}" for name, text in each.measures.items())
        slide = f" each {each.slide}" if each.slide else ""
        by = f" by {', '.join(each.by)}" if each.by else ""
        what = f"{each.window}{slide} of {each.time}{by}, {each.watermark} late at most: {measures}"
        rows.append((f"aggregate {each.name}", what, _sinks(declared, each.name)))
    rows.append((QUARANTINE, "ts, topic, client_id, shard, serial, payload, rule, why", _sinks(declared, QUARANTINE)))
    width = max(len(row[0]) for row in rows)
    lines = []
    for number, (title, what, end) in enumerate(rows):
        mark = "●" if number == 0 or title == QUARANTINE else "│" if title.startswith("rule") else "▼"
        lines.append(f"{mark} {title:<{width}}  {what}")
        lines += [f"  {'':<{width}}  {line}" for line in end.splitlines()]
    return "\n".join(lines)


def _sinks(declared: Declaration, of: str) -> str:
    ends = [f"──▶ table {sink.path}" for sink in declared.tables if sink.of == of]
    if not ends and of == QUARANTINE:
        ends = [f"──▶ table {declared.state / 'tables' / QUARANTINE}"]
    ends += [f"──▶ publish {sink.topic} to {sink.options['broker']}" for sink in declared.publishes if sink.of == of]
    return "\n".join(ends)
