"""Reports as one JSON document each, in ASCII, so that no text in it can move a cursor."""

import json

from matrices import PolicyRef
from policies import ContrastVerdict, RateFigure, Tally, Verdict
from reproduce.errors import ExitCode
from reproduce.report import words
from reproduce.report.contents import requirements_of, warnings_of
from reproduce.report.model import Account, Arm, PlanAccount, Progress, exit_code_of

VERDICT_SCHEMA = "reproduce.verdict/1"
PLAN_SCHEMA = "reproduce.plan/1"
STATUS_SCHEMA = "reproduce.status/1"


def verdict_json(account: Account) -> str:
    """The verdict with all that a report shows; without outcomes while they are sealed."""
    if account.is_sealed():
        return document({**_identity(account), **_withheld(account)})
    return document({**_identity(account), **_verdict(account)})


def plan_json(account: PlanAccount) -> str:
    """The plan, its digest, and what was computed about its budget."""
    plan = account.plan
    return document(
        {
            "schema": PLAN_SCHEMA,
            "digest": plan.digest(),
            "name": plan.short_name(),
            "approved": account.approved,
            "plan": plan.model_dump(mode="json"),
            "requirements": [
                None if brief is None else brief._asdict()
                for brief in map(requirements_of, plan.environments)
            ],
            "warnings": warnings_of(plan),
            "sheets": [sheet._asdict() for sheet in account.sheets],
            "notes": account.notes,
            "next": account.next_commands,
        }
    )


def status_json(progress: Progress) -> str:
    """How far an investigation is."""
    return document(
        {
            "schema": STATUS_SCHEMA,
            "investigation": progress.investigation,
            "plan": progress.plan.digest(),
            "title": progress.plan.title,
            "state": progress.state,
            "blocks": progress.blocks,
            "planned_blocks": progress.plan.budget.trials,
            "recorded": progress.recorded,
            "planned": progress.plan.trial_count(),
            "unresolved": progress.unresolved,
            "running": progress.running,
            "slowest_us": progress.slowest_us,
            "left_us": progress.left_us,
            "sealed": progress.sealed,
            "next": progress.next_commands,
        }
    )


def document(value: object) -> str:
    """The value as indented ASCII JSON with a line feed at its end."""
    return json.dumps(value, ensure_ascii=True, indent=2, allow_nan=False) + "\n"


def _identity(account: Account) -> dict[str, object]:
    plan = account.plan
    return {
        "schema": VERDICT_SCHEMA,
        "investigation": account.investigation,
        "title": plan.title,
        "issue": plan.issue,
        "plan": {"digest": plan.digest(), "name": plan.short_name()},
        "declared_policy": _policy(account.declared_policy),
        "ledger": {
            "path": account.ledger,
            "entries": account.entries,
            "canonicalSha256": account.root,
        },
        "siblings": account.siblings,
        "places": {place.name: place.value for place in account.places},
        "stop": account.stop,
        "next": account.next_commands,
    }


def _withheld(account: Account) -> dict[str, object]:
    tallies = account.verdict.tallies
    return {
        "withheld": True,
        "verdict": None,
        "exit_code": int(ExitCode.NOT_ENOUGH),
        "explanation": words.withheld(account),
        "planned": sum(tally.planned for tally in tallies),
        "missing": sum(tally.missing for tally in tallies),
    }


def _verdict(account: Account) -> dict[str, object]:
    verdict = account.verdict
    return {
        "withheld": False,
        "verdict": verdict.status,
        "exit_code": int(exit_code_of(verdict)),
        "claim": words.claim(account),
        **_judged(account, verdict),
        "reasons": [
            {"reason": reason, "meaning": known.meaning, "remedy": known.remedy}
            for reason, known in words.reason_lines(account)
        ],
        "conditions": [_condition(account.arm(index)) for index in _positions(account)],
        "secondary": {
            name: [_tally(tally) for tally in tallies] for name, tallies in account.secondary
        },
        "ruled_out": words.ruled_out(account),
        "not_shown": words.not_shown(account),
        "others": [
            {"verdict": other.status, **_judged(account, other)} for other in account.others
        ],
    }


def _positions(account: Account) -> list[int]:
    return [tally.condition for tally in account.verdict.tallies]


def _judged(account: Account, verdict: Verdict) -> dict[str, object]:
    return {
        "policy": {**_policy(verdict.policy), "declared": account.is_declared(verdict)},
        "reading": verdict.reading,
        "is_final": verdict.is_final,
        "headline": verdict.headline,
        "reasons": verdict.reasons,
        "caveats": verdict.caveats,
        "contrasts": [_contrast(account, contrast) for contrast in verdict.contrasts],
    }


def _policy(policy: PolicyRef) -> dict[str, object]:
    return {
        "name": policy.name,
        "parameters": {setting.name: setting.value for setting in policy.parameters},
    }


def _contrast(account: Account, contrast: ContrastVerdict) -> dict[str, object]:
    pair = account.contrast(contrast)
    return {
        "contrast": contrast.contrast,
        "stratum": pair.stratum,
        "treatment": pair.treatment,
        "control": pair.control,
        "status": contrast.status,
        "reasons": contrast.reasons,
        "gates": [gate.model_dump(mode="json") for gate in contrast.gates],
        "figures": {figure.name: figure.value for figure in contrast.figures},
        "tipping": contrast.tipping,
    }


def _condition(arm: Arm) -> dict[str, object]:
    return {
        "name": arm.condition.name,
        "stratum": arm.condition.stratum,
        **_tally(arm.tally),
        "rate": None if arm.rate is None else _rate(arm.rate),
    }


def _tally(tally: Tally) -> dict[str, object]:
    return {
        "condition": tally.condition,
        "role": tally.role,
        "planned": tally.planned,
        "matched": tally.matched,
        "clean": tally.clean,
        "valid": tally.valid,
        "unresolved": tally.unresolved,
        "missing": tally.missing,
        "reasons": {reason.value: count for reason, count in tally.reasons},
    }


def _rate(rate: RateFigure) -> dict[str, object]:
    return rate.model_dump(mode="json", exclude={"condition"})
