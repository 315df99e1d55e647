"""Commands about the tool itself: policies, knobs, the schema, this machine."""

from pathlib import Path
from typing import Annotated

import typer

from reproduce.cli.options import Json, Plain

policies = typer.Typer(help="The published policies.", no_args_is_help=True)
knobs = typer.Typer(help="What a level can set.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(policies, name="policy")
    app.add_typer(knobs, name="knobs")
    for command in (doctor, schema, completion):
        app.command()(command)


@policies.command("list")
def list_policies(as_json: Json = False) -> None:
    """Lists the published policies."""
    from reproduce.cli import catalogues

    catalogues.list_policies(as_json=as_json)


@policies.command("show")
def show_policy(name: str, as_json: Json = False) -> None:
    """Shows what a policy claims, its parameters and the digest of its code."""
    from reproduce.cli import catalogues

    catalogues.show_policy(name, as_json=as_json)


@policies.command("power")
def power(
    name: str,
    trials: Annotated[int, typer.Option("-n", "--trials", help="Trials a condition.")] = 60,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the policy; repeatable."),
    ] = None,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Shows the chance of each class over a grid of true rates, by enumeration."""
    from reproduce.cli import catalogues

    catalogues.show_power(name, trials, tuple(parameter or ()), plain=plain, as_json=as_json)


@knobs.command("list")
def list_knobs(as_json: Json = False) -> None:
    """Lists the knobs with an example of each."""
    from reproduce.cli import catalogues

    catalogues.list_knobs(as_json=as_json, probe=False)


@knobs.command("probe")
def probe_knobs(as_json: Json = False) -> None:
    """Says which knobs can be applied on this machine, how, or why not."""
    from reproduce.cli import catalogues

    catalogues.list_knobs(as_json=as_json, probe=True)


def doctor(as_json: Json = False) -> None:
    """Checks this machine: what runs trials here, and what is missing."""
    from reproduce.cli import catalogues

    catalogues.doctor(as_json=as_json)


def schema(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file; default: stdout.")
    ] = None,
) -> None:
    """Prints the JSON Schema of the investigation file, for editors."""
    from reproduce.cli import catalogues

    catalogues.show_schema(output)


def completion(
    shell: Annotated[str, typer.Argument(help="`bash`, `zsh` or `fish`.")] = "bash",
) -> None:
    """Prints the completion script of a shell."""
    from reproduce.cli import catalogues

    catalogues.show_completion(shell)
