"""What the acting commands do, once heavy libraries may be loaded."""

import os
import shlex
import sys
import tempfile
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import typer

from ledger.errors import LedgerError
from matrices import Plan
from policies import PolicyError, Status
from reproduce import userkey
from reproduce.approvals import own, recorded_elsewhere
from reproduce.cli.opening import Opened, current_user, find, ledger
from reproduce.cli.output import emit, emit_json, say
from reproduce.cli.progress import Progress
from reproduce.errors import ExitCode, IntegrityError, NotApprovedError, UsageError
from reproduce.judging import Story, account_of, plan_of, story_of
from reproduce.planning.quick import write_starter
from reproduce.planning.reach import prospect
from reproduce.report.as_json import plan_json, verdict_json
from reproduce.report.look import Look, look_of
from reproduce.report.model import Account, PlanAccount, exit_code_of
from reproduce.report.sheets import plan_text
from reproduce.report.terminal import verdict_text
from reproduce.running import (
    Declared,
    approve,
    carry_out,
    check_host,
    register,
    seal_file,
    translated,
)
from reproduce.state import nearest_state

DEMO = ("reproduce.toml", "probe.sh")

AFTER_DEMO = (
    "your own bug: reproduce quick --match 'WHAT IT PRINTS' --treatment 'CMD' --control 'CMD'",
)
"""What follows the demo, whose own records are removed with its folder."""


class Manner(NamedTuple):
    """How a run is to be done and shown."""

    yes: bool = False
    quiet: bool = False
    plain: bool = False
    as_json: bool = False
    again: bool = False
    expect: tuple[str, ...] = ()
    contract: bool = False
    keeps: bool = True
    """Whether the ledger is there afterwards; the demo's is not."""


def look(*, plain: bool, error: bool = False) -> Look:
    """How to draw on stdout, or on stderr."""
    stream = sys.stderr if error else sys.stdout
    return look_of(stream, os.environ, plain=plain)


def init_file(path: Path, kind: str, *, as_json: bool) -> None:
    """Writes an investigation file to start from."""
    write_starter(path, kind)
    if as_json:
        emit_json({"schema": "reproduce.init/1", "file": str(path), "kind": kind})
    say(f"wrote {path}")
    say(f"next: edit it, then `reproduce check {path}`")


def declared(path: Path) -> tuple[Declared, PlanAccount]:
    """A file, sealed, and what its budget can show.

    Raises:
        UsageError: it cannot be sealed, or its budget cannot reach its claim.
    """
    found = seal_file(path)
    plan = found.sealed.plan
    try:
        shown = prospect(plan)
    except PolicyError as error:
        raise UsageError(
            str(error), place=f"{path.name}: {error.place}", hint=error.hint
        ) from error
    try:
        check_host(plan, found.state)
    except UsageError as error:
        error.place = f"{path.name}: {error.place}"
        raise
    return found, PlanAccount(
        plan=plan, sheets=shown.sheets, notes=(*found.sealed.notes, *shown.notes)
    )


def check_file(path: Path, *, as_json: bool) -> None:
    """Says whether a file can be sealed."""
    _, account = declared(path)
    if as_json:
        emit(plan_json(account))
        return
    for note in account.notes:
        say(f"note: {note}")
    emit(f"{path.name} can be sealed")


def plan_file(path: Path, *, ledger_path: Path | None, plain: bool, as_json: bool) -> None:
    """Seals a file, registers its plan, and shows what its budget can show."""
    found, account = declared(path)
    plan = found.sealed.plan
    with ledger(ledger_path, state=found.state) as opened:
        investigation = register(opened.store, plan)
        mine = own(story_of(opened.store, investigation), investigation, plan.digest())
    approved = mine[-1].by if mine else None
    following = f"reproduce run {path}"
    if approved is None:
        following = f"reproduce approve {plan.short_name()}"
    account = account._replace(approved=approved, next_commands=(following,))
    emit(plan_json(account) if as_json else plan_text(account, look(plain=plain)))


def approve_plan(
    name: str, *, ledger_path: Path | None, yes: bool, plain: bool, as_json: bool
) -> None:
    """Approves a sealed plan as the current user, after showing it."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        plan = plan_of(opened.store, row.id)
        story = story_of(opened.store, row.id)
        if row.closed and not own(story, row.id, plan.digest()):
            message = f"`{row.id}` is finished, and was approved elsewhere"
            raise UsageError(message, hint=f"`reproduce run {row.id[:15]} --again` runs it here")
        sheet = PlanAccount(plan=plan, approved=current_user() if yes else None)
        say(plan_text(sheet, look(plain=plain, error=True)))
        _ask(plan, story, yes=yes)
        approve(opened.store, row.id, plan, by=current_user())
        by = own(story_of(opened.store, row.id), row.id, plan.digest())[-1].by
    if not userkey.is_kept():
        say(f"no key can be kept at {userkey.key_path()}: `run` will ask again")
    if as_json:
        emit_json({"schema": "reproduce.approval/1", "plan": plan.digest(), "by": by})
    say(f"approved {plan.short_name()}")
    say(f"next: reproduce run {plan.short_name()}")


def run_file(path: Path, manner: Manner, *, ledger_path: Path | None) -> None:
    """Seals a file and runs its plan, once it is approved."""
    check_expectation(manner)
    found, account = declared(path)
    with ledger(ledger_path, state=found.state) as opened:
        investigation = register(opened.store, found.sealed.plan, again=manner.again)
        _run(opened, investigation, account, manner, path=str(path))


def run_named(name: str, manner: Manner, *, ledger_path: Path | None) -> None:
    """Runs or resumes a plan that the ledger holds."""
    check_expectation(manner)
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        plan = plan_of(opened.store, row.id)
        investigation = row.id
        if manner.again:
            investigation = register(opened.store, plan, again=True)
        _run(opened, investigation, PlanAccount(plan=plan), manner, path=plan.short_name())


def _run(
    opened: Opened, investigation: str, shown: PlanAccount, manner: Manner, *, path: str
) -> None:
    plan, story = shown.plan, story_of(opened.store, investigation)
    closed = opened.store.head(investigation).closed
    if not closed and not own(story, investigation, plan.digest()):
        if not (manner.quiet and manner.yes):
            sheet = shown._replace(approved=current_user() if manner.yes else None)
            say(plan_text(sheet, look(plain=manner.plain, error=True)))
        _ask(plan, story, yes=manner.yes)
        approve(opened.store, investigation, plan, by=current_user())
    elif closed and not manner.quiet:
        say(f"`{investigation}` is finished; `--again` runs the plan once more")
    _tell_strange(opened, investigation, plan)
    progress = Progress(quiet=manner.quiet)
    with ExitStack() as stack:
        stack.callback(progress.end)
        session = carry_out(
            opened.store,
            investigation,
            plan,
            state=opened.state,
            watch=progress.watch,
            announce=progress.announce,
        )
    if session.verdict is None:
        say(f"interrupted; everything recorded is kept. `reproduce run {path}` resumes")
        raise typer.Exit(ExitCode.INTERRUPTED)
    account = account_of(
        opened.store,
        investigation,
        ledger=opened.shown,
        next_commands=_following(opened, investigation) if manner.keeps else AFTER_DEMO,
    )
    show_verdict(account, manner)
    raise typer.Exit(_exit_code(account, manner))


def _tell_strange(opened: Opened, investigation: str, plan: Plan) -> None:
    """Says which records were there before this user approved the plan: they did not run here."""
    story = story_of(opened.store, investigation)
    strange = recorded_elsewhere(story, investigation, plan.digest())
    if story.closed is not None and not own(story, investigation, plan.digest()):
        say(f"`{investigation}` was approved and recorded elsewhere; nothing ran here")
        say("`--again` runs the plan here")
    elif strange:
        say(f"{strange} trials of `{investigation}` were recorded elsewhere, not run by you")


def show_verdict(account: Account, manner: Manner) -> None:
    """Prints a verdict as text or JSON."""
    if manner.as_json:
        emit(verdict_json(account))
    else:
        emit(verdict_text(account, look(plain=manner.plain)))


def _following(opened: Opened, investigation: str) -> tuple[str, ...]:
    """Commands to go on with, as they work from where the person stands."""
    name = investigation[:15]
    where = ""
    try:
        found = nearest_state(Path.cwd()).ledger
    except IntegrityError:
        found = None
    if found != opened.path.resolve():
        where = f" --ledger {shlex.quote(opened.shown)}"
    return (
        f"reproduce explain {name}{where}",
        f"reproduce export {name} -f md{where}",
        f"reproduce verify {name}{where}",
    )


def check_expectation(manner: Manner) -> None:
    """Refuses an expected verdict that does not exist, before anything runs.

    Raises:
        UsageError: names the verdicts there are.
    """
    for name in manner.expect:
        if name not in Status.__members__:
            known = ", ".join(f"`{status}`" for status in Status)
            hint = f"verdicts: {known}"
            raise UsageError(f"no verdict is called `{name}`", place="--expect", hint=hint)


def _exit_code(account: Account, manner: Manner) -> int:
    code = exit_code_of(account.verdict)
    if manner.expect:
        if account.verdict.status in manner.expect:
            code = ExitCode.DONE
        elif account.verdict.status is Status.UNRESOLVED:
            code = ExitCode.NOT_ENOUGH
        else:
            code = ExitCode.REFUTED
    if manner.contract and code > ExitCode.REFUTED:
        return int(ExitCode.USAGE)
    return int(code)


def _ask(plan: Plan, story: Story, *, yes: bool) -> None:
    if story.approvals:
        say("it was approved elsewhere; only your own approval counts here")
    if yes:
        return
    name = plan.short_name()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        what = "was approved elsewhere, not by you" if story.approvals else "is not approved"
        message = f"the plan `{name}` {what}, and there is no terminal to ask at"
        raise NotApprovedError(
            message, hint=f"`reproduce approve {name} --yes`, or `run --approve`"
        )
    say(f"Run this plan up to {plan.trial_count()} times? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        message = f"the plan `{name}` was not approved"
        raise NotApprovedError(message, hint="nothing ran")


def run_demo(manner: Manner) -> None:
    """Runs the shipped case in a folder of its own, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="reproduce-demo-") as name:
        folder = Path(name)
        shipped = files("reproduce") / "demo"
        for item in DEMO:
            (folder / item).write_bytes((shipped / item).read_bytes())
        if not (manner.quiet or manner.as_json):
            say("A question in a shell script: is the word in the output?")
            say("  set -o pipefail; list | grep -q needle")
            say("With pipefail the answer is sometimes no, though the word is there. Counting...")
        try:
            run_file(folder / DEMO[0], manner._replace(keeps=False), ledger_path=None)
        except LedgerError as error:
            raise translated(error) from error
