"""`reproduce ledger`: what is stored, entry by entry."""

from typing import Annotated

import typer

from reproduce.cli.options import Id, Json, Ledger, Unseal

group = typer.Typer(help="Look inside the ledger.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(group, name="ledger")


@group.command("list")
def list_(ledger: Ledger = None, as_json: Json = False) -> None:
    """Lists the investigations."""
    from reproduce.cli import shelves

    shelves.list_investigations(ledger_path=ledger, as_json=as_json)


@group.command()
def show(
    name: Id = "latest", ledger: Ledger = None, unseal: Unseal = False, as_json: Json = False
) -> None:
    """Shows the entries of an investigation, one a line."""
    from reproduce.cli import shelves

    shelves.show_entries(name, ledger_path=ledger, unseal=unseal, as_json=as_json)


@group.command()
def log(
    name: Id,
    trial: Annotated[int, typer.Argument(help="The number of a trial.")],
    ledger: Ledger = None,
    unseal: Unseal = False,
    as_json: Json = False,
) -> None:
    """Prints what one trial wrote, control characters made visible."""
    from reproduce.cli import shelves

    shelves.show_log(name, trial, ledger_path=ledger, unseal=unseal, as_json=as_json)


@group.command()
def rebuild(name: Id = "latest", ledger: Ledger = None, as_json: Json = False) -> None:
    """Makes the query tables anew from the verified entries."""
    from reproduce.cli import shelves

    shelves.rebuild(name, ledger_path=ledger, as_json=as_json)


@group.command()
def audit(ledger: Ledger = None, as_json: Json = False) -> None:
    """Checks every investigation of the ledger; exit 6 names what is wrong."""
    from reproduce.cli import shelves

    shelves.audit(ledger_path=ledger, as_json=as_json)
