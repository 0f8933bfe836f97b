"""A broker on disk, asked about its past while it runs."""

from pathlib import Path
from typing import Any

from tests.disk_world import DiskWorld
from tests.unit.history.past.questioner import Questioner


class Asked:
    """A broker on disk, and questions as of now."""

    def __init__(self, world: DiskWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.ask = Questioner(folder)

    def __call__(self, path: str, /, **params: object) -> Any:
        self.world.tick()
        return self.ask(path, **params)
