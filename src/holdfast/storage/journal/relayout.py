"""Other lengths of folder fragments for a journal that has queues already.

1. `layout.json` names both layouts before the first queue is moved: until all are moved, a queue is looked for in both.
2. A queue is moved by one rename. Whoever is interrupted begins again with the same command, and goes on.
3. `layout.json` names one layout again when the last queue has been moved and the folders are synced.
"""

from collections.abc import Callable
from pathlib import Path

from holdfast.model.errors import SettingsError
from holdfast.storage.journal.files import make_folders, prune_above, sync_folders
from holdfast.storage.journal.folders import Folders, check_fragments


def relayout(root: Path, fragments: tuple[int, ...], told: Callable[[int], None]) -> int:
    """Requires: the lock of the root, and no commit files. How many queues were moved; `told` hears of each.

    Survives: a power loss, at any step.
    """
    check_fragments(fragments)
    folders = Folders.load(root)
    if folders.former is not None and fragments != folders.fragments:
        wanted = ",".join(map(str, folders.fragments))
        raise SettingsError(f"queues are being moved to folders of {wanted} letters; finish that first")
    if folders.former is None:
        if fragments == folders.fragments:
            return 0
        folders.fragments, folders.former = fragments, folders.fragments
        folders.save()
    moved = 0
    changed: set[Path] = set()
    for name, folder in list(folders.each()):
        place = folders.place(name, fragments)
        if folder == place:
            continue
        changed.update([place.parent, *make_folders(place.parent)])
        folder.replace(place)
        changed.add(prune_above(folder, folders.queues))
        moved += 1
        told(moved)
    sync_folders(changed, root)
    folders.former = None
    folders.save()
    return moved
