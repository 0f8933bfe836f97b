"""A command as a job of the console: `python -m holdfast.cli.job replay …`.

The console keeps the pipe to standard input open. When it ends, in any way, or closes the pipe, the command is
interrupted as by Ctrl-C: it says how far it came, and ends. A command that does not end is killed by who started it.
"""

import os
import signal
import sys
import threading

from holdfast.cli.main import main


def _interrupt_at_the_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    # The console ignores Ctrl-C, and its processes would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_interrupt_at_the_end_of_input, daemon=True).start()
    main()
