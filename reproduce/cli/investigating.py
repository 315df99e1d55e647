"""Commands that declare, seal, approve and run investigations."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from reproduce.cli.options import File, Id, Json, Ledger, Plain, Quiet
from reproduce.cli.output import say

Approve: TypeAlias = Annotated[
    bool, typer.Option("--approve", "--yes", "-y", help="Approve the sealed plan without asking.")
]
Again: TypeAlias = Annotated[
    bool, typer.Option("--again", help="Run a finished plan once more, as a sibling.")
]
Expect: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--expect", metavar="STATUS", help="Exit 0 only for this verdict; repeatable."),
]
Contract: TypeAlias = Annotated[
    bool, typer.Option("--contract", help="Exit codes of a probe: those above 1 become 2.")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(quick)
    app.command()(init)
    app.command()(check)
    app.command()(plan)
    app.command()(approve)
    app.command()(run)
    app.command()(demo)


def quick(
    treatment: Annotated[
        str, typer.Option("--treatment", help="The command where the bug is expected.")
    ],
    control: Annotated[str, typer.Option("--control", help="The command where it is not.")],
    trials: Annotated[int, typer.Option("-n", "--trials", help="Trials for each arm.")] = 60,
    match: Annotated[
        str | None, typer.Option("--match", metavar="RE2", help="What the bug prints.")
    ] = None,
    clean: Annotated[
        str | None, typer.Option("--clean", metavar="RE2", help="What a trial without it prints.")
    ] = None,
    exits: Annotated[
        list[int] | None,
        typer.Option(
            "--exit",
            metavar="CODE",
            help="Exit that goes with `--match`; repeatable. Default: any but 0.",
        ),
    ] = None,
    timeout_s: Annotated[
        str, typer.Option("--timeout", metavar="SECONDS", help="Time limit of a trial.")
    ] = "60",
    parallel: Annotated[
        int | None, typer.Option("-j", "--parallel", help="Trials at once; default: cores.")
    ] = None,
    policy: Annotated[str, typer.Option("--policy", help="`name/version`.")] = "binomial/1",
    source: Annotated[
        str, typer.Option("--source", help="Folder that each trial gets fresh, or `none`.")
    ] = ".",
    shell: Annotated[
        bool, typer.Option("--shell", help="Give the commands to `sh -c` instead of splitting.")
    ] = False,
    title: Annotated[str | None, typer.Option("--title", help="What the bug is.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Where to write the investigation file.")
    ] = None,
    yes: Approve = False,
    quiet: Quiet = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Runs two commands against each other and says what the runs prove.

    The commands are split as a shell splits words and run without a shell; words such as
    NAME=value before the program become variables. The investigation file is kept.
    """
    from reproduce.cli import acting
    from reproduce.planning.quick import Quick, write_quick

    wanted = Quick(
        treatment=treatment,
        control=control,
        trials=trials,
        match=match,
        clean=clean,
        timeout_s=timeout_s,
        parallel=parallel,
        policy=policy,
        source=source,
        shell=shell,
        title=title,
        exits=tuple(exits or ()),
    )
    path = write_quick(wanted, Path.cwd(), file)
    if not quiet:
        say(f"wrote {path.name}")
    acting.run_file(
        path,
        acting.Manner(yes=yes, quiet=quiet, plain=plain, as_json=as_json),
        ledger_path=None,
    )


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("reproduce.toml"),
    kind: Annotated[
        str, typer.Option("--from", help="`output`, `exit-code`, `timeout`, `junit`, `duration`.")
    ] = "output",
    as_json: Json = False,
) -> None:
    """Writes an investigation file to start from, with comments."""
    from reproduce.cli import acting

    acting.init_file(path, kind, as_json=as_json)


def check(file: File, as_json: Json = False) -> None:
    """Says whether an investigation file can be sealed; runs nothing."""
    from reproduce.cli import acting

    acting.check_file(file, as_json=as_json)


def plan(file: File, ledger: Ledger = None, plain: Plain = False, as_json: Json = False) -> None:
    """Seals an investigation and shows what its budget can show; runs nothing."""
    from reproduce.cli import acting

    acting.plan_file(file, ledger_path=ledger, plain=plain, as_json=as_json)


def approve(
    name: Id,
    ledger: Ledger = None,
    yes: Approve = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Approves a sealed plan as the current user."""
    from reproduce.cli import acting

    acting.approve_plan(name, ledger_path=ledger, yes=yes, plain=plain, as_json=as_json)


def run(
    target: Annotated[
        str, typer.Argument(help="An investigation file, or the name of a plan.", metavar="PLAN")
    ],
    ledger: Ledger = None,
    yes: Approve = False,
    again: Again = False,
    expect: Expect = None,
    contract: Contract = False,
    quiet: Quiet = False,
    plain: Plain = False,
    as_json: Json = False,
) -> None:
    """Runs an approved plan, or resumes it, and prints the verdict."""
    from reproduce.cli import acting

    manner = acting.Manner(
        yes=yes,
        quiet=quiet,
        plain=plain,
        as_json=as_json,
        again=again,
        expect=tuple(expect or ()),
        contract=contract,
    )
    path = Path(target)
    if path.suffix in {".toml", ".json"} or path.is_file():
        acting.run_file(path, manner, ledger_path=ledger)
    else:
        acting.run_named(target, manner, ledger_path=ledger)


def demo(quiet: Quiet = False, plain: Plain = False, as_json: Json = False) -> None:
    """Shows the main job on a real bug: `cmd | grep -q word` under pipefail; about 5 seconds."""
    from reproduce.cli import acting

    acting.run_demo(acting.Manner(yes=True, quiet=quiet, plain=plain, as_json=as_json))
