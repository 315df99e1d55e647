"""Options that several commands share. Nothing heavy is imported here: `--help` loads this."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Ledger: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="The ledger; by default the nearest `.reproduce/ledger.sqlite`."
    ),
]
Plain: TypeAlias = Annotated[bool, typer.Option("--plain", help="ASCII only, for old terminals.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
File: TypeAlias = Annotated[
    Path, typer.Argument(help="The investigation file, TOML or JSON.", metavar="FILE")
]
Id: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="An investigation: a beginning of its `iv_` or `pl_` name, or `latest`.",
        metavar="ID",
    ),
]
Policy: TypeAlias = Annotated[
    str | None, typer.Option("--policy", help="Another policy, `name/version`.", metavar="NAME")
]
Unseal: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--unseal", help="Look before the policy allows it; recorded, and the verdict says so."
    ),
]
