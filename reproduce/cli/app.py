"""The command tree, and what every command does with an error."""

import os
import sys
import traceback

import typer

from reproduce import __version__
from reproduce.cli import catalogue, inspecting, investigating, ledgers
from reproduce.cli.options import Json
from reproduce.cli.output import emit, emit_json, report_error, say
from reproduce.errors import ExitCode, ReproduceError, UsageError

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
def version(as_json: Json = False) -> None:
    """Prints the version."""
    if as_json:
        emit_json({"schema": "reproduce.version/1", "version": __version__})
    else:
        emit(__version__)


investigating.register(app)
inspecting.register(app)
ledgers.register(app)
catalogue.register(app)


def main() -> None:
    """Runs a command and ends the process with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command and returns its exit code."""
    as_json = "--json" in arguments
    if os.environ.get("_REPRODUCE_COMPLETE"):
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    try:
        found = app(arguments, prog_name="reproduce", standalone_mode=False)
        return int(found) if isinstance(found, int) else ExitCode.DONE
    except ReproduceError as error:
        report_error(error, as_json=as_json)
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place that can tell usage from a bug
        if hasattr(error, "format_message"):
            message = str(error.format_message())
            report_error(_usage(message), as_json=as_json)
            return ExitCode.USAGE
        # Python's own exit code for this is 1, which would read as "measured and refuted".
        say("".join(traceback.format_exception(error)))
        say("hint: this is a fault of `reproduce` itself; please report it with the lines above")
        return ExitCode.INFRASTRUCTURE


def _usage(message: str) -> UsageError:
    """What Typer found wrong with the arguments, as every other error is said."""
    text = message.strip().rstrip(".")
    hint = "`reproduce --help`, or `--help` after a command"
    return UsageError(text[:1].lower() + text[1:], hint=hint)
