"""Reads everything once, so that damage that sleeps in a table is found before somebody needs the data."""

from collections.abc import Iterator

from rocksdict import Rdict, ReadOptions

from holdfast.storage.rocks.engine import Engine
from holdfast.storage.rocks.options import DEFAULT
from holdfast.storage.rocks.quarantine import Damage
from holdfast.storage.rocks.recovery import named_file


def verify(engine: Engine) -> Iterator[tuple[str, int, Damage | None]]:
    """(family, readable keys, damage) of each family, as each is done. A long work: not on the loop."""
    for name in [DEFAULT, *engine.families()]:
        keys, damage = _read_all(engine.family(name))
        yield name, keys, damage


def _read_all(family: Rdict) -> tuple[int, Damage | None]:
    """Stops at the first damage: behind a bad block an iterator's order is not to be trusted."""
    options = ReadOptions()
    options.set_verify_checksums(True)
    # What is read once would only push out what others need.
    options.fill_cache(False)  # type: ignore[call-arg]  # the stub lacks the argument
    keys = 0
    last: object = None
    try:
        iterator = family.iter(options)
        iterator.seek_to_first()
        while iterator.valid():
            last = iterator.key()
            iterator.value()
            keys += 1
            iterator.next()
        iterator.status()
    except Exception as error:
        place = f"after key {last!r}" if last is not None else "at the first key"
        return keys, Damage("bad table", named_file(str(error)) or "table", f"{place}: {error}", None)
    return keys, None
