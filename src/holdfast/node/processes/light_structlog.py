"""Imports structlog without rich. A program of a node imports this before whatever imports structlog.

structlog imports rich wherever it is installed, for tracebacks that `logs` does not write: a sixth of what the imports
of a broker take, and a third of those of a console. Rich itself stays as it is: who imports it later has it.

Only the main modules of processes import this. How structlog is in a program that runs a broker inside itself is the
matter of that program.
"""

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # An import that finds None here raises ImportError.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
