"""What a plan under `binomial/1` can claim, and the trials that it would take.

Powers are those of the smallest effect that matters beside a control that never matches.
Frozen with the policy: a change of meaning is a new version beside it.
"""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from matrices import Plan
from policies.binomial_v1_parameters import (
    MOST_TRIALS,
    Parameters,
    completed,
    decimal,
    parsed,
    require_served,
)
from policies.binomial_v1_rules import NO_DIFFERENCE
from policies.model import PolicyError
from policies.stats.power import Design, classes, first_reaching
from policies.stats.regions import Count
from policies.stats.score import rejects, rejects_less

NEVER = Fraction(0)
"""The control rate that powers are given for."""

WEAK = Fraction(4, 5)
"""A plan whose power is below this is called weak, whether or not it declares a power."""

_WEAK_TOLERANCE = 1e-9
"""Far above the error of a computed power: no float decides whether a verdict says weak."""

_REACHED_TOLERANCE = 1e-12
"""What a computed power may lie below a goal that it reaches exactly."""

SHARES = (Fraction(1, 20), Fraction(1, 10))
"""Unresolved shares that power is shown for beside the declared one."""


class PowerRow(NamedTuple):
    """The power of a plan when some of its trials stay unresolved."""

    title: str
    treatment_unresolved: int
    control_unresolved: int
    established: float
    """P(E): the difference is established from the valid trials."""
    pinned: float
    """P(`REPRODUCTION_PINNED`)."""


class Reach(NamedTuple):
    """What a plan can claim."""

    trials: int
    possible: bool
    """Whether some table gives `REPRODUCTION_PINNED`."""
    trials_possible: int
    """Trials from which some table does."""
    excludes: bool
    """Whether no match at all in either arm would exclude `min_effect`."""
    trials_excluding: int
    """Trials from which it would."""
    power: tuple[PowerRow, ...]
    """At the declared unresolved share first, then one unresolved control trial, 5 % and 10 %."""
    declared: Fraction | None
    """The power that the plan demands, if it does."""
    trials_for_power: int | None
    """Trials that reach the declared power (or 0.8), `None` if none up to 20,000 do."""

    @property
    def reached(self) -> bool:
        """Whether the plan reaches the power it declares."""
        return self.declared is None or _reaches(self.power[0].pinned, self.declared)

    @property
    def weak(self) -> bool:
        """Whether the smallest effect that matters would often be missed."""
        return _is_weak(self.power[0].pinned)


def _reaches(power: float, goal: Fraction) -> bool:
    return power >= float(goal) - _REACHED_TOLERANCE


def _is_weak(power: float) -> bool:
    return power < float(WEAK) - _WEAK_TOLERANCE


def reach(plan: Plan) -> Reach:
    """Return what the plan can claim.

    Raises:
        PolicyError: the policy does not serve the plan.
    """
    require_served(plan)
    wanted = parsed(completed(plan.policy))
    trials = plan.budget.trials
    needed = _first(lambda n: _best_table(n, wanted))
    excluding = _first(lambda n: _empty_table(n, wanted))
    rows = tuple(_row(trials, *row, wanted) for row in _rows(trials, wanted))
    goal = WEAK if wanted.power is None else wanted.power
    enough = trials if _reaches(rows[0].pinned, goal) else _trials_for(goal, wanted, above=trials)
    return Reach(
        trials=trials,
        possible=_best_table(trials, wanted),
        trials_possible=needed,
        excludes=_empty_table(trials, wanted),
        trials_excluding=excluding,
        power=rows,
        declared=wanted.power,
        trials_for_power=enough,
    )


def check(plan: Plan) -> Reach:
    """Return what the plan can claim, if it can claim what it declares.

    Raises:
        PolicyError: no table could satisfy the claim, or the plan has less than its declared
            power; the hint says how many trials it would take.
    """
    found = reach(plan)
    if not found.possible:
        message = f"no outcome of {found.trials} trials a condition could establish a difference"
        hint = f"plan at least {found.trials_possible} trials, or raise `alpha`"
        raise PolicyError(message, place="budget.trials", hint=hint)
    if found.declared is not None and not found.reached:
        # Rounded down, so that a power is never shown as large as the goal that it misses.
        power = decimal(Fraction(floor(found.power[0].pinned * 1000), 1000))
        goal = decimal(found.declared)
        message = f"{found.trials} trials a condition have a power of {power}, below {goal}"
        more = found.trials_for_power
        hint = (
            f"plan {more} trials, or raise `min_effect` or `alpha`"
            if more is not None
            else f"{MOST_TRIALS} trials are not enough: raise `min_effect`, or lower `unresolved`"
        )
        raise PolicyError(message, place="policy.power", hint=hint)
    return found


def weaknesses(trials: int, wanted: Parameters) -> tuple[str, ...]:
    """Return in words what a plan with that many trials could hardly or never have shown."""
    effect = decimal(wanted.min_effect)
    found = []
    power = _row(trials, *_rows(trials, wanted)[0], wanted).pinned
    if _is_weak(power):
        # Without the power itself: a computed float would decide a byte of the verdict.
        found.append(
            f"a weak plan: a difference of {effect} beside a control that never matches is "
            f"pinned with a chance below {decimal(WEAK)}"
        )
    if not _empty_table(trials, wanted):
        found.append(f"no match in either arm would not exclude a difference of {effect}")
    return tuple(found)


def _rows(trials: int, wanted: Parameters) -> list[tuple[str, int, int]]:
    """Return the titles and unresolved counts that power is shown for; shares round up."""
    share = _unresolved(trials, wanted.unresolved)
    rows = [(f"{decimal(100 * wanted.unresolved)}% unresolved", share, share)]
    if trials > 1:
        rows.append(("one unresolved control trial", 0, 1))
    for extra in SHARES:
        count = _unresolved(trials, extra)
        rows.append((f"{decimal(100 * extra)}% unresolved", count, count))
    return rows


def _unresolved(trials: int, share: Fraction) -> int:
    return min(trials - 1, ceil(trials * share))


def _row(trials: int, title: str, u1: int, u0: int, wanted: Parameters) -> PowerRow:
    """Return the power with that many unresolved trials; none where rule 1 stops the verdict."""
    design = Design(trials - u1, trials - u0, u1, u0, wanted.alpha, wanted.min_effect)
    found = classes(design, wanted.min_effect, NEVER)
    read = max(u1, u0) <= trials * wanted.max_unresolved
    return PowerRow(
        title=title,
        treatment_unresolved=u1,
        control_unresolved=u0,
        established=found.established,
        pinned=found.pinned if read else 0.0,
    )


def _trials_for(goal: Fraction, wanted: Parameters, *, above: int) -> int | None:
    """Return the trials, more than `above`, that reach a power at the declared unresolved share.

    Power is a saw-tooth: fewer trials than a plan has may reach what the plan does not.
    None do where the gate refuses the share, or where the worst reading leaves no difference:
    all unresolved control trials match, the unresolved treatment trials do not.
    """
    share = wanted.unresolved
    if share > wanted.max_unresolved or share >= wanted.min_effect * (1 - share):
        return None

    def reaches(trials: int) -> bool:
        count = _unresolved(trials, wanted.unresolved)
        return _reaches(_row(trials, "", count, count, wanted).pinned, goal)

    first = first_reaching(reaches)
    if first is None or first > above:
        return first
    return next((trials for trials in range(above + 1, MOST_TRIALS + 1) if reaches(trials)), None)


def _first(holds: Callable[[int], bool]) -> int:
    """Return the first number of trials that holds; all larger ones hold too."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _best_table(trials: int, wanted: Parameters) -> bool:
    """Tell whether all treatment trials and no control trial matching is a pinned table."""
    table = Count(trials, trials), Count(0, trials)
    established = rejects(*table, margin=NO_DIFFERENCE, alpha=wanted.alpha)
    excluded = rejects_less(*table, margin=wanted.min_effect, alpha=wanted.alpha)
    return established and not excluded


def _empty_table(trials: int, wanted: Parameters) -> bool:
    """Tell whether no match at all excludes `min_effect`."""
    table = Count(0, trials), Count(0, trials)
    return rejects_less(*table, margin=wanted.min_effect, alpha=wanted.alpha)
