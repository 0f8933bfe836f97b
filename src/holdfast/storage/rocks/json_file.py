"""A file of JSON in the data folder that is replaced as a whole, by whoever works beside the broker."""

import json
import os
import tempfile
from pathlib import Path


def replace_json(path: Path, content: object) -> None:
    """OSError if it cannot be written. Survives: a power loss, with the old file or the new one."""
    # A dot in front: nobody takes a file that is being written for what it will be.
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, 0o644)  # the broker may be another user
        os.replace(made, path)
    except BaseException:
        os.unlink(made)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
