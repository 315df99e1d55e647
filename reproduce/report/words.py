"""The sentences of a report. None says more than the verdict does."""

from collections.abc import Iterator
from typing import assert_never

from policies import ContrastVerdict, Status, Tally, VerdictReason
from reproduce.report.figures import (
    above,
    below,
    decimal_of,
    error_level,
    level,
    magnitude,
    one_sided,
    points,
)
from reproduce.report.model import Account, Arm, reasons_of
from reproduce.report.reasons import UNRESOLVED_REASONS, VERDICT_REASONS, Advice
from reproduce.report.text import one_line

NEVER_SHOWN = (
    "that the cause in production is the same",
    "other machines, platforms or versions than the ones that ran",
)
"""What no verdict shows, whatever the policy."""

INDEPENDENCE = "that trials influence each other: their independence is assumed"
"""Said unless the policy says it in its own words."""

GATES = f"needed for {Status.REPRODUCTION_PINNED}"
"""What the gates of every policy are about; a verdict that claims less breaks some of them."""

_UNDONE = "would undo the claim, with those of the treatment read as clean"

MARKS = {
    Status.REPRODUCTION_PINNED: "■",
    Status.PARTIAL: "▲",
    Status.WEAK_SIGNAL: "△",
    Status.UNRESOLVED: "◇",
    Status.NOT_REPRODUCED: "□",
}
"""A mark beside the name of a status, for the eye."""

SEALED_MARK = "◇"


def arm_name(arm: Arm) -> str:
    """The role with the name of the condition beside it."""
    return f"{arm.condition.role} ({one_line(arm.condition.name)})"


def share(tally: Tally) -> str:
    """Matched and valid trials as they stand in tables."""
    return f"{tally.matched}/{tally.valid}"


def counts(treatment: Arm, control: Arm) -> str:
    """What was counted in both arms of a contrast, as a clause."""
    one, other = treatment.tally, control.tally
    return (
        f"the symptom matched in {one.matched} of {one.valid} valid trials under "
        f"{arm_name(treatment)} and in {other.matched} of {other.valid} under {arm_name(control)}"
    )


def claim(account: Account) -> str:
    """The verdict in one sentence: the counts of its headline and what follows from them."""
    contrast = account.headline()
    sentence = f"{counts(*account.arms(contrast))}: {_meaning(account, contrast)}"
    for addition in (*_missing(account, contrast), *_early(account)):
        sentence += f"; {addition}"
    return f"{sentence[0].upper()}{sentence[1:]}."


def _missing(account: Account, contrast: ContrastVerdict) -> Iterator[str]:
    tallies = [arm.tally for arm in account.arms(contrast)]
    missing = sum(tally.missing for tally in tallies)
    if missing and VerdictReason.BUDGET in contrast.reasons:
        planned = sum(tally.planned for tally in tallies)
        yield f"{missing} of {planned} planned trials {'is' if missing == 1 else 'are'} missing"


def _early(account: Account) -> Iterator[str]:
    if _is_unsealed(account):
        rate = account.verdict.policy.parameter("alpha")
        void = "" if rate is None else ", so the declared error rate no longer holds"
        yield f"{VERDICT_REASONS[VerdictReason.UNSEALED].meaning}{void}"


def _is_unsealed(account: Account) -> bool:
    return VerdictReason.UNSEALED in reasons_of(account.verdict)


def withheld(account: Account) -> str:
    """What is said while outcomes may not be shown."""
    tallies = account.verdict.tallies
    planned = sum(tally.planned for tally in tallies)
    recorded = planned - sum(tally.missing for tally in tallies)
    return (
        f"Outcomes are sealed: {recorded} of {planned} trials are recorded, and "
        f"{account.verdict.policy.name} allows no look yet. Looking early would void its error "
        "rate; `--unseal` shows them, is recorded, and the verdict says so."
    )


def _meaning(account: Account, contrast: ContrastVerdict) -> str:
    reasons = contrast.reasons
    match contrast.status:
        case Status.REPRODUCTION_PINNED:
            return _pinned(account, contrast)
        case Status.PARTIAL:
            return _partial(account, reasons)
        case Status.WEAK_SIGNAL:
            return _weak(account, contrast, reasons)
        case Status.NOT_REPRODUCED:
            return _not_reproduced(account, contrast)
        case Status.UNRESOLVED:
            return _unresolved(reasons, *account.arms(contrast))
        case _:
            assert_never(contrast.status)


def _error_rate(account: Account) -> str | None:
    """The error rate in words and what it is worth, or `None` where the policy states none.

    It holds for a policy that was chosen before the run and for outcomes that nobody looked at.
    """
    alpha = account.verdict.policy.parameter("alpha")
    if alpha is None:
        return None
    rate = f"one-sided error rate at most {error_level(alpha)}"
    notes = []
    if not account.is_declared(account.verdict):
        notes.append("nominal: this policy was not declared before the run")
    if _is_unsealed(account):
        notes.append("it no longer holds after the early look")
    return "; ".join((rate, *notes))


def _pinned(account: Account, contrast: ContrastVerdict) -> str:
    rate = _error_rate(account)
    if rate is None:
        return f"this is what {account.verdict.policy.name} calls pinned, with no error rate"
    left_out = any(arm.tally.unresolved for arm in account.arms(contrast))
    also = ", also when every unresolved trial is read against it" if left_out else ""
    return f"the rate is higher under treatment ({rate}){also}"


def _partial(account: Account, reasons: tuple[VerdictReason, ...]) -> str:
    rate = _error_rate(account)
    if rate is None:
        also = "; the symptom is in the control as well" * (
            VerdictReason.SYMPTOM_IN_CONTROL in reasons
        )
        also += "; unresolved trials could undo more" * (VerdictReason.FRAGILE in reasons)
        return (
            f"this is what {account.verdict.policy.name} calls partial, with no error rate{also}"
        )
    if VerdictReason.FRAGILE in reasons:
        return (
            "the rate is higher under treatment among the valid trials, but not when every "
            "unresolved trial is read against it"
        )
    return f"the policy finds a higher rate under treatment, but {_first(reasons)}"


def _weak(account: Account, contrast: ContrastVerdict, reasons: tuple[VerdictReason, ...]) -> str:
    if VerdictReason.SMALL_EFFECT in reasons:
        least = _least(account, contrast)
        return f"the rate is higher under treatment, but by less than {least}"
    if VerdictReason.HINT in reasons:
        return "a hint, for which no error rate is claimed"
    return f"this is what {account.verdict.policy.name} calls a weak signal, with no error rate"


def _least(account: Account, contrast: ContrastVerdict) -> str:
    value = contrast.figure("min_effect") or account.verdict.policy.parameter("min_effect")
    return "the smallest effect asked for" if value is None else points(value).lstrip("+")


def _not_reproduced(account: Account, contrast: ContrastVerdict) -> str:
    rate, (treatment, control) = _error_rate(account), account.arms(contrast)
    if rate is None and control.tally.matched:
        return (
            f"the symptom was not reproduced under {arm_name(treatment)}, though it matched "
            "in the control, and the policy rules out no rate"
        )
    if rate is None:
        return "the symptom was not reproduced here, and the policy rules out no rate"
    least = _least(account, contrast)
    return (
        f"a rate higher under treatment by {least} or more is ruled out ({rate}); "
        f"{_not_excluded(account, contrast)} is not"
    )


def _not_excluded(account: Account, contrast: ContrastVerdict) -> str:
    """Which smaller differences remain; all of them where the limit does not say.

    The limit leaves unresolved trials out, and in rare tables it lies above the smallest effect
    although that is excluded.
    """
    upper = decimal_of(contrast.figure("difference_upper") or "")
    least = decimal_of(contrast.figure("min_effect") or "")
    left_out = any(arm.tally.unresolved for arm in account.arms(contrast))
    if upper is None or least is None or upper >= least or left_out:
        return "any smaller one"
    return f"one of up to {magnitude(str(upper))}"


def _unresolved(reasons: tuple[VerdictReason, ...], treatment: Arm, control: Arm) -> str:
    if reasons[:1] == (VerdictReason.SYMPTOM_IN_CONTROL,):
        if not treatment.tally.matched and control.tally.matched:
            return "the symptom is under control and not under treatment: are the arms swapped?"
        return "the symptom is in the control too, so this contrast does not show its trigger"
    return f"this decides nothing, because {_first(reasons)}"


def _first(reasons: tuple[VerdictReason, ...]) -> str:
    return VERDICT_REASONS[reasons[0]].meaning if reasons else "a gate of the policy does not hold"


def ruled_out(account: Account) -> tuple[str, ...]:
    """What the trials of the headline contrast exclude, each limit with its confidence.

    Nothing while trials are missing, records conflict or an early look was taken: the limits hold
    for the planned number of trials, and a run that was cut short may have been cut short by what
    it saw. What holds among the valid trials only is not here but in `among_valid`.
    """
    contrast = account.headline()
    arms = account.arms(contrast)
    if not _limits_hold(account):
        return ()
    found = [text for arm in arms if not arm.tally.unresolved for text in _limits(arm)]
    upper, rate = contrast.figure("difference_upper"), _error_rate(account)
    confidence = contrast.figure("difference_confidence")
    left_out = any(arm.tally.unresolved for arm in arms)
    if contrast.status is Status.NOT_REPRODUCED and rate is not None:
        # The policy claims it only where it holds at the best reading of the unresolved too.
        least = _least(account, contrast)
        also = ", however the unresolved trials are read" * left_out
        found.append(f"a rate higher under treatment by {least} or more ({rate}){also}")
    elif upper is not None and confidence is not None and not left_out and _is_read(contrast):
        found += _at_most(upper, confidence)
    return tuple(found)


def among_valid(account: Account) -> tuple[str, ...]:
    """Limits that leave unresolved trials out, and so rule nothing out.

    The unresolved may differ from the others in just what was asked, such as trials that hung.
    """
    if not _limits_hold(account):
        return ()
    return tuple(
        f"among valid trials ({arm.tally.unresolved} unresolved left out): {text}, "
        "if the unresolved ones do not differ"
        for arm in account.arms(account.headline())
        if arm.tally.unresolved
        for text in _limits(arm)
    )


def _limits_hold(account: Account) -> bool:
    """Whether every planned trial is recorded, each with one content, and nobody looked early."""
    contrast = account.headline()
    missing = any(arm.tally.missing for arm in account.arms(contrast))
    conflict = VerdictReason.CONFLICT in contrast.reasons
    return not (missing or conflict or _is_unsealed(account))


_READABLE = frozenset({"budget", "valid", "control_resolved"})
"""Gates without which the counts of an arm say nothing; rule 1 of `binomial/1`."""


def _is_read(contrast: ContrastVerdict) -> bool:
    return all(gate.holds for gate in contrast.gates if gate.name in _READABLE)


def _at_most(upper: str, confidence: str) -> list[str]:
    number = decimal_of(upper)
    if number is None or number >= 1:
        return []
    return [f"a difference above {points(upper)} (one-sided, {level(confidence)})"]


def _limits(arm: Arm) -> Iterator[str]:
    """What the rate of one condition is not; only where every or no valid trial matched."""
    if arm.rate is None or not arm.tally.valid or arm.tally.matched not in (0, arm.tally.valid):
        return
    side = f"above {above(arm.rate)}" if arm.tally.matched else f"below {below(arm.rate)}"
    sure = f"one-sided, {one_sided(arm.rate.confidence)}"
    yield f"{share(arm.tally)} under {arm_name(arm)}: the rate is {side} ({sure})"


def not_shown(account: Account) -> tuple[str, ...]:
    """What the verdict does not show or what it assumes.

    First the limits that hold among the valid trials only, then the caveats of the policy, then
    what no verdict shows.
    """
    caveats = tuple(one_line(caveat) for caveat in account.verdict.caveats)
    assumed = () if any("independen" in caveat for caveat in caveats) else (INDEPENDENCE,)
    return (*among_valid(account), *caveats, *one_seed(account), *NEVER_SHOWN, *assumed)


def one_seed(account: Account) -> tuple[str, ...]:
    """The arms of the headline whose trials all ran at one seed.

    Where the seed decides, sixty trials at one seed are one observation; no policy counts
    distinct seeds yet.
    """
    return tuple(
        f"other seeds: every trial under {arm_name(arm)} ran at `{setting.name}` {setting.value}, "
        "so where that decides they are one observation"
        for arm in account.arms(account.headline())
        for setting in arm.condition.knobs
        if setting.name in {"seed", "hash_seed"} and setting.value.isdigit()
    )


def tipping(contrast: ContrastVerdict) -> str | None:
    """What the tipping number says, or `None` where there is none."""
    match contrast.tipping:
        case None:
            return None
        case 0:
            return "fragile to unresolved treatment trials"
        case 1:
            return f"1 unresolved control trial read as a match {_UNDONE}"
        case many:
            return f"{many} unresolved control trials read as matches {_UNDONE}"


def advice(reason: VerdictReason) -> Advice:
    """What a reason of a verdict means and what to do."""
    return VERDICT_REASONS[reason]


def reason_lines(account: Account) -> tuple[tuple[VerdictReason, Advice], ...]:
    """The reasons of the verdict with what they mean, the headline's first."""
    return tuple((reason, VERDICT_REASONS[reason]) for reason in reasons_of(account.verdict))


def unresolved_because(tally: Tally) -> str:
    """The reasons of a condition's unresolved trials with their counts; empty without any."""
    return ", ".join(f"{count} {reason}" for reason, count in tally.reasons)


def siblings(account: Account) -> str:
    """How many investigations there are of the same plan or issue."""
    others = account.siblings - 1
    if others <= 0:
        return "the only investigation of this plan or issue in this ledger"
    one = "1 other investigation" if others == 1 else f"{others} other investigations"
    return f"{one} of this plan or issue in this ledger: read them together"


def which_declared(account: Account) -> str:
    """Which of the shown verdicts the plan declared."""
    name = account.declared_policy.name
    verdicts = (account.verdict, *account.others)
    exploratory = sum(not account.is_declared(verdict) for verdict in verdicts)
    if not exploratory:
        return f"{name} was declared in the plan."
    if exploratory == len(verdicts):
        return f"{name} was declared in the plan; every verdict shown here is exploratory."
    rows = "the other row is" if exploratory == 1 else "the other rows are"
    return f"Only {name} was declared in the plan; {rows} exploratory."


def deciding(contrasts: tuple[ContrastVerdict, ...], headline: int) -> str:
    """The reasons of the headline, else its first gate that does not hold, else that all hold.

    The gates are those of a pinned contrast: such a one was not decided by a gate that does not
    hold, so those that do are counted, and an exclusion is decided by a figure of its own.
    """
    contrast = contrasts[headline]
    if contrast.reasons:
        return ", ".join(contrast.reasons)
    excluded = contrast.figure("p_excluded")
    if contrast.status is Status.NOT_REPRODUCED and excluded is not None:
        return f"the smallest effect is excluded: {p_value(excluded)}"
    broken = [gate for gate in contrast.gates if not gate.holds]
    if not broken:
        return "every gate holds" if contrast.gates else "–"
    if contrast.status is Status.REPRODUCTION_PINNED:
        return f"{len(contrast.gates) - len(broken)} of {len(contrast.gates)} gates hold"
    return f"{broken[0].title}: {broken[0].measured}"


def p_value(text: str) -> str:
    """A p-value with its letter; one that is bounded brings its own sign."""
    return f"p {text}" if text.startswith(("<", ">")) else f"p = {text}"


def unresolved_totals(account: Account) -> tuple[tuple[str, int, Advice], ...]:
    """Every reason for unresolved trials with its count over all conditions and its advice."""
    totals: dict[str, int] = {}
    for tally in account.verdict.tallies:
        for reason, count in tally.reasons:
            totals[reason] = totals.get(reason, 0) + count
    return tuple(
        (reason.value, totals[reason], known)
        for reason, known in UNRESOLVED_REASONS.items()
        if totals.get(reason)
    )
