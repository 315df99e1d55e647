"""`binomial/1`: a fixed number of trials and exact tests with a stated error.

A difference of rates is established, or one of `min_effect` is excluded, each with probability
at most `alpha` of being wrong. Frozen: a change of meaning is a new version beside it.
"""

from collections.abc import Mapping
from fractions import Fraction

from matrices import Plan, Setting
from policies.assembling import assemble
from policies.binomial_v1_gates import budget_gates, claim_gates, figures_of
from policies.binomial_v1_parameters import (
    NAME,
    Parameters,
    completed,
    decimal,
    parsed,
    require_served,
    written_out,
)
from policies.binomial_v1_planning import weaknesses
from policies.binomial_v1_rules import NO_DIFFERENCE, arm_of, facts_of, read
from policies.evidence import Evidence, tallies
from policies.model import (
    ContrastVerdict,
    Figure,
    Status,
    Tally,
    Verdict,
    VerdictReason,
)
from policies.stats.missing import tipping

INDEPENDENCE = (
    "trials are assumed independent, or not negatively dependent within a block; the order of "
    "every block was random"
)
"""What the error rates rest on."""


def parameters(given: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the given parameters with every default written out, sorted by name.

    Raises:
        PolicyError: a parameter is unknown, not a decimal or out of its range.
    """
    return written_out(given)


def reduce(plan: Plan, evidence: Evidence) -> Verdict:
    """Return the verdict of the exact comparison; final once every trial is recorded.

    Raises:
        PolicyError: the plan has several contrasts, too many trials, or parameters out of range.
    """
    require_served(plan)
    reference = completed(plan.policy)
    wanted = parsed(reference)
    counted = tallies(plan, evidence)
    contrast = plan.contrasts[0]
    found = judge(0, counted[contrast.treatment], counted[contrast.control], wanted, flags=())
    return assemble(
        plan,
        evidence,
        counted,
        (found,),
        name=NAME,
        parameters=reference,
        confidence=1 - 2 * wanted.alpha,
        caveats=(*_caveats(found, wanted), *weaknesses(plan.budget.trials, wanted)),
    )


def judge(
    contrast: int,
    treatment: Tally,
    control: Tally,
    wanted: Parameters,
    *,
    flags: tuple[VerdictReason, ...],
) -> ContrastVerdict:
    """Return how one contrast reads from its two tallies.

    `flags` are the diagnostics that block a full claim; they can lower a verdict, never raise
    it. None is measured yet.
    """
    gates = budget_gates(treatment, control, wanted)
    found = read(treatment, control, wanted, flags=flags)
    if treatment.missing or control.missing or not (treatment.valid and control.valid):
        # Neither a look before the end nor an empty arm gives figures.
        return ContrastVerdict(
            contrast=contrast, status=found.status, reasons=found.reasons, gates=gates
        )
    one, other = arm_of(treatment), arm_of(control)
    facts = facts_of(one, other, wanted)
    tip = None
    # Where rule 1 stops the verdict there is no claim that anything could undo.
    if facts.established and found.status is not Status.UNRESOLVED:
        tip = tipping(one, other, margin=NO_DIFFERENCE, alpha=wanted.alpha)
    figures = figures_of(one, other, wanted)
    return ContrastVerdict(
        contrast=contrast,
        status=found.status,
        reasons=found.reasons,
        gates=(*gates, *claim_gates(one, other, facts, figures, wanted)),
        figures=tuple(Figure(name=name, value=value) for name, value in figures.items()),
        tipping=tip,
    )


def _caveats(found: ContrastVerdict, wanted: Parameters) -> tuple[str, ...]:
    each, both = decimal(1 - wanted.alpha), decimal(1 - 2 * wanted.alpha)
    caveats = [
        INDEPENDENCE,
        f"each printed limit holds at {each} by itself: together a {both} interval",
    ]
    lower = found.figure("difference_lower")
    upper = found.figure("difference_upper")
    holds = {gate.name: gate.holds for gate in found.gates}
    if holds.get("established") and lower is not None and Fraction(lower) < 0:
        # p is not monotone in the margin; the verdict reads p at 0, the limit all p below it.
        caveats.append(
            "the difference is established at 0, but its printed lower limit lies below 0: the "
            "exact p-value rises above alpha again just below 0"
        )
    excluded = not holds.get("effect_not_excluded", True)
    if excluded and upper is not None and Fraction(upper) > wanted.min_effect:
        effect = decimal(wanted.min_effect)
        caveats.append(
            f"a difference of {effect} is excluded, but the printed upper limit lies above "
            f"{effect}: the exact p-value rises above alpha again above {effect}"
        )
    return tuple(caveats)
