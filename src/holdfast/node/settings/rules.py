"""Rules between settings, and between settings and the machine, which no single value can break.

1. A listener that other machines can reach has credentials, or allows anonymous clients explicitly.
2. Some client can connect: where anonymous clients are not allowed, credentials exist.
3. A certificate is set where TLS is used, and nowhere else.
4. No two listeners have the same address and port.
5. Every file that is named can be read; the data folder can be written.
6. A topic belongs to at most one zone, behind every mount point.
7. A zone can keep its promises: what survives the broker is stored, and a generation is no longer than the retention.
8. Queues outside the log belong to sessions that outlive the broker, and a class names its clients.
9. History is served to clients with a token, or to this machine alone; and messages are stored.
10. The console is served to this machine alone, or to people with credentials through TLS.
11. A node of a cluster has the settings that its cluster can keep (`cluster_rules`).
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Final

from holdfast.model.errors import SettingsError
from holdfast.node.settings.cluster_rules import cluster_problems
from holdfast.node.settings.console_rules import console_problems
from holdfast.node.settings.section_rules import history_problems, queue_problems
from holdfast.node.settings.tree import (
    DEFAULT_WEBSOCKET_PATH,
    TLS_KINDS,
    WEBSOCKET_KINDS,
    Listener,
    Settings,
    Storage,
    ZoneSettings,
)
from holdfast.node.settings.zones import DEFAULT_ZONE, parse_thresholds, zones_of

_TLS_FILES: Final = ("certificate", "key", "client_ca", "crl")
_EVERY_ADDRESS: Final = frozenset({"*", "0.0.0.0", "::"})
#: Commands that make a file that a setting names.
_MAKERS: Final = {
    "security.password_file": "user",
    "history.token_file": "token",
    "console.user_file": "console user",
    "console.token_file": "token",
}
_LOCALHOST: Final = frozenset({"127.0.0.1", "::1"})


@dataclass(frozen=True)
class SettingProblem:
    """What is wrong, and what would be right."""

    text: str
    #: The keys it follows from. If one of them has a problem itself, this one is not reported.
    keys: frozenset[str] = frozenset()


def refuse(problems: list[SettingProblem]) -> None:
    """SettingsError with all `problems`, a paragraph each, unless there are none."""
    if problems:
        raise SettingsError("\n".join(problem.text for problem in problems))


_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+|null")


def problems_of(settings: Settings) -> list[SettingProblem]:
    """Every broken rule."""
    problems: list[SettingProblem] = []
    for name, listener in settings.listeners.items():
        problems += _tls_problems(settings, name, listener)
        problems += _websocket_problems(settings, name, listener)
        problems += _text_problems(settings, name, listener)
        problems += _credential_problems(settings, name, listener)
    problems += _port_problems(settings)
    problems += _file_problems(settings)
    problems += _folder_problems(settings)
    problems += _kept_problems(settings, "storage", settings.storage)
    for name, zone in settings.zones.items():
        problems += _kept_problems(settings, f"zones.{name}", zone)
    problems += _zone_problems(settings)
    found = [
        *history_problems(settings),
        *console_problems(settings),
        *queue_problems(settings),
        *cluster_problems(settings),
    ]
    problems += [_problem(settings, key, text, *others) for key, text, *others in found]
    return problems


def _problem(settings: Settings, key: str, text: str, *others: str) -> SettingProblem:
    """A problem of a key, behind the source of its value."""
    source = settings.sources.get(key)
    place = key if source is None else f"{source}: {key}"
    return SettingProblem(f"{place} {text}", frozenset((key, *others)))


def _tls_problems(settings: Settings, name: str, listener: Listener) -> Iterator[SettingProblem]:
    prefix = f"listeners.{name}"
    kind_key = f"{prefix}.kind"
    given = {field: getattr(listener, field) for field in _TLS_FILES}
    if listener.kind in TLS_KINDS:
        for field in ("certificate", "key"):
            if given[field] is None:
                text = f"is not set; kind = {listener.kind!r} needs certificate and key, two PEM files"
                yield _problem(settings, f"{prefix}.{field}", text, kind_key)
        if listener.require_client_certificate and listener.client_ca is None:
            text = "is not set; require_client_certificate needs the authorities to check against, a PEM file"
            yield _problem(settings, f"{prefix}.client_ca", text, kind_key, f"{prefix}.require_client_certificate")
        if listener.crl is not None and listener.client_ca is None:
            text = "is not set; crl lists revoked certificates of these authorities, a PEM file"
            yield _problem(settings, f"{prefix}.client_ca", text, kind_key, f"{prefix}.crl")
        return
    secure = "wss" if listener.kind in WEBSOCKET_KINDS else "tls"
    for field in (field for field, path in given.items() if path is not None):
        text = f"is set, and kind = {listener.kind!r} does not use it; write kind = {secure!r} or remove it"
        yield _problem(settings, f"{prefix}.{field}", text, kind_key)
    if listener.require_client_certificate:
        text = f"is true, and kind = {listener.kind!r} knows no certificates; write kind = {secure!r} or remove it"
        yield _problem(settings, f"{prefix}.require_client_certificate", text, kind_key)


def _websocket_problems(settings: Settings, name: str, listener: Listener) -> Iterator[SettingProblem]:
    key = f"listeners.{name}.path"
    if listener.kind not in WEBSOCKET_KINDS:
        if listener.path != DEFAULT_WEBSOCKET_PATH:
            text = f"is set, and kind = {listener.kind!r} has no path; write kind = 'ws' or 'wss', or remove it"
            yield _problem(settings, key, text, f"listeners.{name}.kind")
        if listener.allowed_origins:
            text = f"is set, and kind = {listener.kind!r} is for no browser; write kind = 'ws' or 'wss', or remove it"
            yield _problem(settings, f"listeners.{name}.allowed_origins", text, f"listeners.{name}.kind")
        return
    for origin in listener.origins_allowed(anonymous=False) or ():
        if not _ORIGIN.fullmatch(origin):
            text = f"has {origin!r}; an origin is scheme, host and port, such as 'https://example.org', without a path"
            yield _problem(settings, f"listeners.{name}.allowed_origins", text)
    if not listener.path.startswith("/"):
        yield _problem(settings, key, f"is {listener.path!r}; it must begin with a slash, such as '/mqtt'")


def _text_problems(settings: Settings, name: str, listener: Listener) -> Iterator[SettingProblem]:
    if not listener.host:
        yield _problem(settings, f"listeners.{name}.host", "is empty; '*' means every address")
    mount = listener.mount_point
    if not _is_mount(mount):
        text = f"is {mount!r}; it must be whole levels of a topic, such as 'tenant-a/', without '+' and '#'"
        yield _problem(settings, f"listeners.{name}.mount_point", text)


def _is_mount(mount: str) -> bool:
    return not mount or (mount.endswith("/") and "+" not in mount and "#" not in mount)


def _credential_problems(settings: Settings, name: str, listener: Listener) -> Iterator[SettingProblem]:
    prefix = f"listeners.{name}"
    by_certificate = listener.require_client_certificate and listener.kind in TLS_KINDS
    if settings.security.password_file is not None or by_certificate or settings.anonymous_allowed(listener):
        return
    others = (
        f"{prefix}.allow_anonymous",
        f"{prefix}.require_client_certificate",
        f"{prefix}.kind",
        "security.password_file",
        "security.allow_anonymous",
    )
    add = "    holdfast user add NAME --file holdfast.passwd\n"
    if not listener.host:
        return
    if listener.is_loopback:
        text = (
            "does not let anybody in: anonymous clients are not allowed, and there are no credentials. Make some:\n"
            f"{add}    holdfast serve --set security.password_file=holdfast.passwd\n"
            f"or allow anonymous clients: --set {prefix}.allow_anonymous=true"
        )
        yield SettingProblem(f"{prefix} {text}", frozenset((f"{prefix}.host", *others)))
        return
    again = f"--host {listener.host} " if settings.sources.get(f"{prefix}.host") == "--host" else ""
    stay = "--host 127.0.0.1" if name == "default" else f"--set {prefix}.host=127.0.0.1"
    text = (
        f"is {listener.host}, which other machines may reach, and there are no credentials. Make some:\n"
        f"{add}    holdfast serve {again}--set security.password_file=holdfast.passwd\n"
        f"or use {stay} to stay on this machine,\n"
        f"or let everybody in, if you mean it: --set {prefix}.allow_anonymous=true"
    )
    yield _problem(settings, f"{prefix}.host", text, *others)


def _port_problems(settings: Settings) -> Iterator[SettingProblem]:
    seen: list[tuple[str, Listener]] = []
    for name, listener in settings.listeners.items():
        for other_name, other in seen:
            if listener.port != 0 and listener.port == other.port and _overlap(listener.host, other.host):
                text = f"is {listener.port}, as is that of listeners.{other_name}; give each its own port"
                others = (f"listeners.{other_name}.port", f"listeners.{name}.host", f"listeners.{other_name}.host")
                yield _problem(settings, f"listeners.{name}.port", text, *others)
        seen.append((name, listener))


def _overlap(host: str, other: str) -> bool:
    """Whether two hosts have an address in common, as far as their names tell."""
    addresses = [_LOCALHOST if name == "localhost" else {name} for name in (host, other)]
    return not _EVERY_ADDRESS.isdisjoint((host, other)) or not addresses[0].isdisjoint(addresses[1])


def _file_problems(settings: Settings) -> Iterator[SettingProblem]:
    named: dict[str, Path | None] = {
        "security.password_file": settings.security.password_file,
        "security.acl_file": settings.security.acl_file,
    }
    for name, listener in settings.listeners.items():
        for field in _TLS_FILES:
            named[f"listeners.{name}.{field}"] = getattr(listener, field)
    for field in ("token_file", "certificate", "key"):
        named[f"history.{field}"] = getattr(settings.history, field)
    if settings.console.enabled is not False:
        for field in ("user_file", "token_file", "certificate", "key"):
            named[f"console.{field}"] = getattr(settings.console, field)
    for field in ("password_file", "tls_certificate", "tls_key", "tls_ca"):
        named[f"cluster.{field}"] = getattr(settings.cluster, field)
    named["redis.password_file"] = settings.redis.password_file
    named["postgres.password_file"] = settings.postgres.password_file
    for key, path in named.items():
        if path is None:
            continue
        if not path.exists():
            maker = _MAKERS.get(key)
            hint = f"; holdfast {maker} add NAME --file {path} makes it" if maker else ""
            yield _problem(settings, key, f"is {path}, and there is no such file in {Path.cwd()}{hint}")
        elif not path.is_file():
            yield _problem(settings, key, f"is {path}, which is not a file")
        elif not os.access(path, os.R_OK):
            yield _problem(settings, key, f"is {path}, which this user may not read; chown or chmod it")


def _folder_problems(settings: Settings) -> Iterator[SettingProblem]:
    data = settings.storage.data
    if data.exists() and not data.is_dir():
        yield _problem(settings, "storage.data", f"is {data}, which is not a folder; name one, or a new one")
    elif settings.on_disk():
        nearest = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
        if not os.access(nearest, os.W_OK | os.X_OK):
            text = f"is {data}, and this user may not write to {nearest}; chown or chmod it, or name another folder"
            yield _problem(settings, "storage.data", text)


def _kept_problems(settings: Settings, prefix: str, kept: Storage | ZoneSettings) -> Iterator[SettingProblem]:
    """The rules that hold for a zone and for the default zone."""
    try:
        if parse_thresholds(kept.thresholds) and kept.layout not in ("learned", "paged"):
            text = f"is set, and layout = {kept.layout!r} learns nothing; write layout = 'paged' or remove it"
            yield _problem(settings, f"{prefix}.thresholds", text, f"{prefix}.layout")
    except SettingsError as error:
        why = str(error).removeprefix(f"thresholds {kept.thresholds!r}: ")
        yield _problem(settings, f"{prefix}.thresholds", f"is {kept.thresholds!r}; {why}")
    for unit, generation, retention in (
        ("s", kept.generation_s, kept.retention_s),
        ("bytes", kept.generation_bytes, kept.retention_bytes),
    ):
        if generation > retention > 0:
            text = (
                f"is {generation}, and retention_{unit} is {retention}: messages go together, so many would stay too "
                f"long; make it at most {retention}, or 0 to have it chosen"
            )
            yield _problem(settings, f"{prefix}.generation_{unit}", text, f"{prefix}.retention_{unit}")


def _zone_problems(settings: Settings) -> Iterator[SettingProblem]:
    sound: list[str] = []
    for name, zone in settings.zones.items():
        if not zone.store and zone.durability not in (None, "memory"):
            text = f"is {zone.durability!r}, and store = false writes nothing that could survive; remove one of them"
            yield _problem(settings, f"zones.{name}.durability", text, f"zones.{name}.store")
        key = f"zones.{name}.filter"
        if name == DEFAULT_ZONE:
            text = "is the zone of all topics that no other zone names; its settings stand in [storage]"
            yield SettingProblem(f"zones.{name} {text}", frozenset((key,)))
        elif not zone.filter:
            yield _problem(settings, key, "is empty; name the topics of the zone, such as 'plant/+/press/#'")
        elif error := _refusal(settings, name):
            why = error.removeprefix(f"zone filter {zone.filter!r}: ").removeprefix(f"filter {zone.filter!r}: ")
            yield _problem(settings, key, f"is {zone.filter!r}; {why}")
        else:
            sound.append(name)
    if not _refusal(settings, *sound):
        return
    for one, other in combinations(sound, 2):
        if error := _refusal(settings, one, other):
            key, other_key = f"zones.{other}.filter", f"zones.{one}.filter"
            filters = (settings.zones[other].filter, settings.zones[one].filter)
            text = f"is {filters[0]!r}, and {other_key} is {filters[1]!r}; {error}; a topic belongs to one zone"
            mounts = (f"listeners.{name}.mount_point" for name in settings.listeners)
            yield _problem(settings, key, text, other_key, *mounts)


def _refusal(settings: Settings, *names: str) -> str:
    """Why these zones alone are refused; empty if they are not. Other problems do not count."""
    zones = {name: replace(settings.zones[name], thresholds="") for name in names}
    listeners = {name: each for name, each in settings.listeners.items() if _is_mount(each.mount_point)}
    storage = replace(settings.storage, thresholds="")
    try:
        zones_of(replace(settings, zones=zones, listeners=listeners, storage=storage))
    except SettingsError as error:
        return str(error)
    return ""
