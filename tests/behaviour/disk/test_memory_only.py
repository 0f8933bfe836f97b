"""A node that keeps everything in memory: no folder, and no storage library."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
import holdfast.testing

async def main():
    async with holdfast.testing.broker():
        print(sorted(name for name in sys.modules if name == "rocksdict" or name.startswith("holdfast.storage")))

asyncio.run(main())
"""


def test_the_storage_library_is_not_imported_and_no_folder_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
    assert list(tmp_path.iterdir()) == []
