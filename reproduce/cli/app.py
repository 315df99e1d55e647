"""The command tree, and what every command does with an error."""

import os
import sys

import typer

from reproduce import __version__
from reproduce.cli import catalogue, inspecting, investigating, ledgers
from reproduce.cli.output import report_error, say
from reproduce.errors import ExitCode, ReproduceError

app = typer.Typer(
    name="reproduce",
    help="Reproduces flaky bugs by counted runs and says what the runs prove.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Reproduces flaky bugs by counted runs and says what the runs prove."""


@app.command()
def version() -> None:
    """Prints the version."""
    typer.echo(__version__)


investigating.register(app)
inspecting.register(app)
ledgers.register(app)
catalogue.register(app)


def main() -> None:
    """Runs a command and ends the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command and returns its exit code."""
    try:
        found = app(arguments, prog_name="reproduce", standalone_mode=False)
        return int(found) if isinstance(found, int) else ExitCode.DONE
    except ReproduceError as error:
        report_error(error, as_json="--json" in arguments)
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe left; what it did not read is nobody's error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as error:  # noqa: BLE001 - the last place that can tell usage from a bug
        show = getattr(error, "show", None)
        if show is None:
            raise
        show(sys.stderr)
        return int(getattr(error, "exit_code", ExitCode.USAGE))
