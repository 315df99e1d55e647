"""Commands that read a ledger: where a run is, what it proves, why, and whether it is so."""

from pathlib import Path
from typing import Annotated

import typer

from reproduce.cli.options import Id, Json, Ledger, Plain, Policy, Unseal


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (status, verdict, compare, explain, export, verify):
        app.command()(command)


def status(
    name: Id = "latest", ledger: Ledger = None, plain: Plain = False, as_json: Json = False
) -> None:
    """Shows how far an investigation is; outcomes stay sealed."""
    from reproduce.cli import reading

    reading.show_status(name, ledger_path=ledger, plain=plain, as_json=as_json)


def verdict(
    name: Id = "latest",
    policy: Policy = None,
    ledger: Ledger = None,
    unseal: Unseal = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Recomputes the verdict from the records, under the plan's policy or another one."""
    from reproduce.cli import reading

    manner = reading.Reading(ledger_path=ledger, unseal=unseal, plain=plain, as_json=as_json)
    reading.show_verdict(name, policy, manner)


def compare(
    name: Id = "latest",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", help="A policy to show; repeatable; default: all.", metavar="NAME"
        ),
    ] = None,
    ledger: Ledger = None,
    unseal: Unseal = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Shows several policies on the same records, and which one was declared."""
    from reproduce.cli import reading

    manner = reading.Reading(ledger_path=ledger, unseal=unseal, plain=plain, as_json=as_json)
    reading.show_comparison(name, tuple(policy or ()), manner)


def explain(
    name: Id = "latest",
    policy: Policy = None,
    ledger: Ledger = None,
    unseal: Unseal = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Says gate by gate why the verdict is what it is, and what to do next."""
    from reproduce.cli import reading

    manner = reading.Reading(ledger_path=ledger, unseal=unseal, plain=plain, as_json=as_json)
    reading.show_explanation(name, policy, manner)


def export(
    name: Id = "latest",
    form: Annotated[
        str, typer.Option("-f", "--format", help="`json`, `csv`, `md` or `junit`.")
    ] = "md",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file; default: stdout.")
    ] = None,
    ledger: Ledger = None,
    unseal: Unseal = False,
) -> None:
    """Writes the verdict (`json`, `md`, `junit`) or one row for each trial (`csv`)."""
    from reproduce.cli import reading

    manner = reading.Reading(ledger_path=ledger, unseal=unseal)
    reading.write_export(name, form, output, manner)


def verify(
    target: Annotated[
        str, typer.Argument(help="A ledger file, or an investigation.", metavar="LEDGER")
    ] = "latest",
    ledger: Ledger = None,
    as_json: Json = False,
) -> None:
    """Recomputes bytes, tree, plan, approval, trials, readings and verdict; exit 6 if one differs."""
    from reproduce.cli import reading

    reading.verify_ledger(target, ledger_path=ledger, as_json=as_json)
