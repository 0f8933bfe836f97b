"""`holdfast serve`: a broker in the foreground."""

import gc

from holdfast.cli.commands import FAILED, exit_on
from holdfast.cli.options.groups import grouped
from holdfast.cli.options.settings import SettingsOptions
from holdfast.model.errors import PermanentError, PoisonedError, SettingsError


@grouped
def serve(options: SettingsOptions) -> None:
    """Run a broker in the foreground."""
    settings = options.read_or_fail()
    # Imported here: printing the help needs no broker. Modules leave no garbage, and looking for it takes a tenth of
    # their imports.
    gc.disable()
    import holdfast.node.processes.light_structlog  # noqa: F401

    # isort: split
    from holdfast.node.lifecycle import run as run_node
    from holdfast.node.logs import configure_logs

    gc.enable()
    configure_logs(settings.log.level, settings.log.format)
    with (
        exit_on(SettingsError),
        exit_on(PermanentError, PoisonedError, named="the broker cannot go on", code=FAILED),
    ):
        run_node(settings, options.read)
