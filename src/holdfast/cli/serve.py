"""`holdfast serve`: a broker in the foreground."""

from typing import Final

from holdfast.cli.commands import WRONG_USAGE, fail
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.model.errors import PermanentError, PoisonedError, SettingsError

#: The data folder cannot be read, or cannot be written any more.
CANNOT_GO_ON: Final = 1


@grouped
def serve(options: SettingsOptions) -> None:
    """Run a broker in the foreground."""
    settings = options.read_or_fail()
    # Imported here: printing the help needs no broker.
    from holdfast.node.lifecycle import run as run_node
    from holdfast.node.logs import configure_logs

    configure_logs(settings.log.level, settings.log.format)
    try:
        run_node(settings, options.read)
    except SettingsError as error:
        fail(str(error), WRONG_USAGE)
    except (PermanentError, PoisonedError) as error:
        fail(f"the broker cannot go on: {error}", CANNOT_GO_ON)
