"""What the reading commands do, once heavy libraries may be loaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from ledger.records import EntryKind, Unsealed
from ledger.store import InvestigationRow, Item
from matrices import PolicyRef
from policies import PolicyError
from policies.evidence import facts_of
from policies.reading_v1 import read
from policies.registry import names
from reproduce import clock
from reproduce.auditing import blobs_of, projection_of
from reproduce.cli.acting import look
from reproduce.cli.opening import Opened, current_user, find, ledger
from reproduce.cli.output import emit, emit_json, say
from reproduce.errors import ExitCode, IntegrityError, UsageError
from reproduce.judging import account_of, bodies, plan_of, policy_for, story_of
from reproduce.report.as_csv import TrialRow, trial_csv
from reproduce.report.as_json import status_json, verdict_json
from reproduce.report.explain import explain_text
from reproduce.report.junit import verdict_junit
from reproduce.report.markdown import verdict_markdown
from reproduce.report.model import Account, Progress
from reproduce.report.sheets import status_text
from reproduce.report.terminal import compare_text, verdict_text
from reproduce.report.text import one_line
from reproduce.verification import SHOWS, Check, Step, Verification, verify

FORMS = ("json", "csv", "md", "junit")


class Reading(NamedTuple):
    """How an investigation is to be read and shown."""

    ledger_path: Path | None = None
    unseal: bool = False
    plain: bool = False
    as_json: bool = False


def policy_named(opened: Opened, row: InvestigationRow, name: str | None) -> PolicyRef | None:
    """The policy that a person names, with its defaults.

    Raises:
        UsageError: no such policy.
    """
    if name is None:
        return None
    try:
        return policy_for(plan_of(opened.store, row.id), name)
    except PolicyError as error:
        raise UsageError(str(error), place="--policy", hint=error.hint) from error


def account(
    opened: Opened,
    row: InvestigationRow,
    manner: Reading,
    policy: PolicyRef | None = None,
    others: tuple[PolicyRef, ...] = (),
) -> Account:
    """The account of an investigation; with `--unseal` the look is recorded first."""
    if manner.unseal:
        unseal(opened, row)
    try:
        return account_of(opened.store, row.id, ledger=opened.shown, policy=policy, others=others)
    except PolicyError as error:
        raise UsageError(str(error), place="--policy", hint=error.hint) from error


def unseal(opened: Opened, row: InvestigationRow) -> None:
    """Records a look before the policy allows one; after the end there is nothing to record."""
    if opened.store.head(row.id).closed:
        return
    story = story_of(opened.store, row.id)
    look_at = Unsealed(by=current_user(), after_trials=story.recorded)
    item = Item(
        EntryKind.UNSEALED,
        f"unsealed:{story.recorded}:{look_at.by}"[:200],
        look_at.model_dump(mode="json"),
    )
    opened.store.append(row.id, [item], recorded_us=clock.now_us())
    say("outcomes were unsealed; this is recorded, and the verdict will say so")


def show_verdict(name: str, policy: str | None, manner: Reading) -> None:
    """Prints the recomputed verdict."""
    with ledger(manner.ledger_path) as opened:
        row = find(opened.store, name)
        found = account(opened, row, manner, policy_named(opened, row, policy))
    emit(verdict_json(found) if manner.as_json else verdict_text(found, look(plain=manner.plain)))


def show_explanation(name: str, policy: str | None, manner: Reading) -> None:
    """Prints the verdict gate by gate."""
    with ledger(manner.ledger_path) as opened:
        row = find(opened.store, name)
        found = account(opened, row, manner, policy_named(opened, row, policy))
    emit(verdict_json(found) if manner.as_json else explain_text(found, look(plain=manner.plain)))


def show_comparison(name: str, wanted: tuple[str, ...], manner: Reading) -> None:
    """Prints one row for each policy."""
    with ledger(manner.ledger_path) as opened:
        row = find(opened.store, name)
        declared = plan_of(opened.store, row.id).policy.name
        chosen = wanted or tuple(name for name in names() if name != declared)
        others = tuple(
            found
            for name in dict.fromkeys(chosen)
            if name != declared
            for found in (policy_named(opened, row, name),)
            if found is not None
        )
        found = account(opened, row, manner, others=others)
    emit(verdict_json(found) if manner.as_json else compare_text(found, look(plain=manner.plain)))


def show_status(name: str, *, ledger_path: Path | None, plain: bool, as_json: bool) -> None:
    """Prints how far an investigation is."""
    with ledger(ledger_path) as opened:
        row = find(opened.store, name)
        progress = _progress(opened, row)
    emit(status_json(progress) if as_json else status_text(progress, look(plain=plain)))


def _progress(opened: Opened, row: InvestigationRow) -> Progress:
    plan, story = plan_of(opened.store, row.id), story_of(opened.store, row.id)
    found = account_of(opened.store, row.id, ledger=opened.shown)
    size = len(plan.conditions)
    recorded = bytearray(plan.trial_count())
    for body in bodies(opened.store, row.id):
        recorded[body["trial"]] = 1
    first_gap = recorded.find(0)
    state = "finished" if story.closed else "started" if story.sessions else "waiting"
    if state == "waiting" and story.approved_by is None:
        state = "not approved"
    following = {
        "finished": f"reproduce verdict {row.id[:15]}",
        "not approved": f"reproduce approve {plan.short_name()}",
    }
    return Progress(
        investigation=row.id,
        plan=plan,
        state=state,
        blocks=(len(recorded) if first_gap < 0 else first_gap) // size,
        recorded=sum(recorded),
        unresolved=sum(tally.unresolved for tally in found.verdict.tallies),
        sealed=found.is_sealed(),
        next_commands=(following.get(state, f"reproduce run {plan.short_name()}"),),
    )


def write_export(name: str, form: str, output: Path | None, manner: Reading) -> None:
    """Writes an investigation in one of the forms."""
    if form not in FORMS:
        known = ", ".join(f"`{one}`" for one in FORMS)
        raise UsageError(f"no form is called `{form}`", place="--format", hint=f"forms: {known}")
    with ledger(manner.ledger_path) as opened:
        row = find(opened.store, name)
        found = account(opened, row, manner)
        text = _exported(opened, row, found, form)
    if output is None:
        emit(text)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(str(error.strerror), place=str(output)) from error
    say(f"wrote {output}")


def _exported(opened: Opened, row: InvestigationRow, found: Account, form: str) -> str:
    match form:
        case "json":
            return verdict_json(found)
        case "md":
            return verdict_markdown(found)
        case "junit":
            return verdict_junit(found)
        case _:
            rows = _trial_rows(opened, row, found)
            return "".join(trial_csv(found.plan, rows, sealed=found.is_sealed()))


def _trial_rows(opened: Opened, row: InvestigationRow, found: Account) -> Iterator[TrialRow]:
    symptom = found.plan.symptom()
    for body in bodies(opened.store, row.id):
        outcome, reason = read(symptom, facts_of(body, symptom.name))
        yield TrialRow(body, outcome, reason)


def verify_ledger(target: str, *, ledger_path: Path | None, as_json: bool) -> None:
    """Verifies one investigation, or all of a ledger file; exit 6 if anything differs."""
    path = Path(target)
    whole = path.is_file()
    where = path if whole else ledger_path
    guards = _guards(where)
    try:
        with ledger(where, for_audit=True) as opened:
            rows = opened.store.investigations() if whole else (find(opened.store, target),)
            found = [_verified(opened, row, whole=whole) for row in rows]
            blobs = blobs_of(opened.store) if whole else None
    except IntegrityError as error:
        if guards.holds:
            raise
        # What stops the reader says more than what stops a writer.
        guards = guards._replace(detail=f"{guards.detail}; {error}")
        found, blobs = [], None
    stored = None if blobs is None else Check(Step.BLOBS, holds=blobs.holds, detail=blobs.detail)
    file_checks = [guards] if stored is None else [guards, stored]
    if as_json:
        emit_json(
            {
                "schema": "reproduce.verify/1",
                "guards": {"holds": guards.holds, "detail": guards.detail},
                "blobs": None if blobs is None else blobs._asdict(),
                "investigations": [_document(one) for one in found],
                "shows": SHOWS,
            }
        )
    else:
        for check in file_checks:
            emit(_line(check))
        for one in found:
            emit(_lines(one))
        emit(SHOWS)
    if not (all(check.holds for check in file_checks) and all(one.holds for one in found)):
        raise typer.Exit(ExitCode.INTEGRITY)


def _verified(opened: Opened, row: InvestigationRow, *, whole: bool) -> Verification:
    """The steps of an investigation; of a whole file also its query tables."""
    found = verify(opened.store, row)
    audit = projection_of(opened.store, row) if whole and found.checks[0].holds else None
    if audit is None:
        return found
    check = Check(Step.PROJECTION, holds=audit.holds, detail=audit.detail)
    return found._replace(checks=(*found.checks, check))


def _guards(path: Path | None) -> Check:
    """Whether the ledger's own guards are in place, found by opening it as any command does."""
    try:
        with ledger(path) as opened:
            return Check(Step.GUARDS, holds=True, detail=f"{opened.shown} refuses changes")
    except IntegrityError as error:
        return Check(Step.GUARDS, holds=False, detail=str(error))


def _document(found: Verification) -> dict[str, object]:
    return {
        "investigation": found.investigation,
        "holds": found.holds,
        "canonicalSha256": found.root,
        "executed_by": found.executed_by,
        "recomputed_by": found.recomputed_by,
        "checks": [
            {"step": check.step, "holds": check.holds, "detail": check.detail}
            for check in found.checks
        ],
    }


def _lines(found: Verification) -> str:
    lines = [one_line(found.investigation), *map(_line, found.checks)]
    hosts = one_line(found.executed_by)
    lines.append(f"  executed by {hosts}, as the records say")
    lines.append(f"  recomputed by {found.recomputed_by}")
    return "\n".join(lines)


def _line(check: Check) -> str:
    return f"  {'✓' if check.holds else '✗'} {check.step:<10} {one_line(check.detail)}"
