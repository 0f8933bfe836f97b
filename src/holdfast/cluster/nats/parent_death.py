"""Becomes another program that ends with its parent. Run by its path, with the parent's process id, the program and its
arguments.

The kernel kills the program when the thread that started it ends, however that one ends (`PR_SET_PDEATHSIG`, which
`exec` keeps). It is set here and not between `fork` and `exec` of the broker: code that runs there, in a process with
threads, may wait for a lock that no thread will release. Other systems than Linux have no such call; there a program
that was left behind holds the lock that it inherited, and no second one is started beside it (`server`).
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str]) -> None:
    """Does not return."""
    parent, program, *rest = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(f"the parent {parent} has ended already")
    os.execv(program, [program, *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
