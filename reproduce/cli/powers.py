"""Operating characteristics of a policy: the chance of each verdict, by enumeration."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from matrices import PolicyRef, Role
from policies import Status, Tally
from policies.registry import complete
from reproduce.errors import UsageError

MOST_TRIALS = 400
"""Trials of a condition above which the enumeration takes longer than a person waits."""

CORRELATION = Fraction(1, 20)
"""Between the trials of an arm in the rows with dependence."""

UNRESOLVED_SHARE = Fraction(1, 10)

_GRID: Mapping[str, tuple[tuple[str, str], ...]] = {
    "no effect": tuple((r, r) for r in ("0", "0.01", "0.05", "0.1", "0.2", "0.5", "0.8", "1")),
    "the control never matches": tuple(
        (r, "0") for r in ("0.01", "0.05", "0.1", "0.15", "0.2", "0.3", "0.5", "0.9", "1")
    ),
    "the control matches in 5 %": tuple(
        (r, "0.05") for r in ("0.1", "0.15", "0.2", "0.3", "0.5", "0.9", "1")
    ),
}
"""True rates of treatment and control by what they stand for."""

Floats: TypeAlias = NDArray[np.float64]
Judge: TypeAlias = Callable[[Tally, Tally], Status]
Table: TypeAlias = NDArray[np.int8]


class PowerRow(NamedTuple):
    """The chance of each verdict at one pair of true rates."""

    world: str
    trials: str
    """What is true of the trials: all resolved, some unresolved, or dependent."""
    treatment: str
    control: str
    chances: tuple[float, ...]
    """In the order of `Status`."""

    def claimed(self) -> float:
        """The chance of a verdict that claims a higher rate in full or in part."""
        order = tuple(Status)
        firm = (Status.REPRODUCTION_PINNED, Status.PARTIAL)
        return sum(self.chances[order.index(status)] for status in firm)


class PowerTable(NamedTuple):
    """What a policy does with a number of trials."""

    policy: PolicyRef
    trials: int
    rows: tuple[PowerRow, ...]

    def false_claims(self, trials: str) -> float:
        """The largest chance of a claim where there is no effect, over the rates of the grid."""
        wrong = [row for row in self.rows if row.treatment == row.control and row.trials == trials]
        return max(row.claimed() for row in wrong)


def power_table(name: str, trials: int, given: Mapping[str, str]) -> PowerTable:
    """What the policy called `name` does with `trials` trials of each of two conditions.

    Every table of counts is judged by the policy's own rules and weighed with its probability.

    Raises:
        UsageError: too few or too many trials.
        PolicyError: no such policy or parameter.
    """
    if not 1 <= trials <= MOST_TRIALS:
        message = f"{trials} trials a condition are not from 1 to {MOST_TRIALS}"
        raise UsageError(message, place="--trials", hint="choose a number in between")
    policy = complete(name, given)
    unresolved = min(trials - 1, ceil(trials * UNRESOLVED_SHARE))
    whole = _verdicts(policy, trials, 0)
    cut = _verdicts(policy, trials, unresolved)
    some = f"{unresolved} of {trials} unresolved"
    rows: list[PowerRow] = []
    for world, rates in _GRID.items():
        for treatment, control in rates:
            for title, table, pmf in (
                ("all resolved", whole, _independent),
                (some, cut, _independent),
                (f"correlated by {float(CORRELATION):g}", whole, _clustered),
            ):
                size = len(table) - 1
                mass = np.outer(
                    pmf(size, float(treatment)), pmf(size, float(control))
                )
                chances = np.bincount(table.ravel(), mass.ravel(), minlength=len(Status))
                found = tuple(min(1.0, float(chance)) for chance in chances)
                rows.append(PowerRow(world, title, treatment, control, found))
    return PowerTable(policy, trials, tuple(rows))


def _verdicts(policy: PolicyRef, trials: int, unresolved: int) -> Table:
    """The position in `Status` of the verdict on every table of counts, treatment first."""
    judge = _judge(policy, trials, unresolved)
    order = tuple(Status)
    valid = trials - unresolved
    arms = [
        [_tally(role, trials, matched, valid) for matched in range(valid + 1)]
        for role in (Role.TREATMENT, Role.CONTROL)
    ]
    found = [[order.index(judge(one, other)) for other in arms[1]] for one in arms[0]]
    return np.array(found, dtype=np.int8)


def _judge(policy: PolicyRef, trials: int, unresolved: int) -> Judge:
    if policy.name == "binomial/1":
        return _binomial(policy, trials, unresolved)
    from policies import strict_v1, strict_v2  # noqa: PLC0415 - one of several

    judge = {"strict/1": strict_v1.judge, "strict/2": strict_v2.judge}[policy.name]
    return lambda treatment, control: judge(0, treatment, control).status


def _binomial(policy: PolicyRef, trials: int, unresolved: int) -> Judge:
    """The rules of `binomial/1`, its facts read off the frontiers between tables."""
    from policies.binomial_v1_parameters import parsed  # noqa: PLC0415 - one of several
    from policies.binomial_v1_rules import Facts, arm_of, classify, unread  # noqa: PLC0415
    from policies.stats.power import first_established, last_excluded  # noqa: PLC0415

    wanted = parsed(policy)
    valid, alpha, effect = trials - unresolved, wanted.alpha, wanted.min_effect

    def judge(treatment: Tally, control: Tally) -> Status:
        if unread(treatment, control, wanted):
            return Status.UNRESOLVED
        i, j = treatment.matched, control.matched
        facts = Facts(
            established=i >= first_established(valid, valid, j, alpha),
            excluded=i <= last_excluded(valid, valid, j, alpha, effect),
            established_worst=i >= first_established(trials, trials, j + unresolved, alpha),
            excluded_best=i + unresolved <= last_excluded(trials, trials, j, alpha, effect),
        )
        return classify(arm_of(treatment), arm_of(control), facts, ()).status

    return judge


def _tally(role: Role, trials: int, matched: int, valid: int) -> Tally:
    return Tally(
        condition=0 if role is Role.TREATMENT else 1,
        role=role,
        planned=trials,
        matched=matched,
        clean=valid - matched,
        unresolved=trials - valid,
        missing=0,
    )


def _independent(trials: int, rate: float) -> Floats:
    """The binomial probabilities of 0 to `trials` matches."""
    counts = np.arange(trials + 1, dtype=np.float64)
    logs = _log_choose(trials, counts)
    logs += special.xlogy(counts, rate) + special.xlog1py(trials - counts, -rate)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _clustered(trials: int, rate: float) -> Floats:
    """The beta-binomial probabilities: any two trials of the arm correlate by `CORRELATION`.

    The rate of an arm varies as Beta(a, b) with a + b = 1/rho - 1 and mean `rate`, so that rho is
    the correlation of two of its trials (Skellam, J. R. Statist. Soc. B 10, 1948).
    """
    if rate in {0.0, 1.0}:
        return _independent(trials, rate)
    spread = float(1 / CORRELATION - 1)
    a, b = rate * spread, (1 - rate) * spread
    counts = np.arange(trials + 1, dtype=np.float64)
    logs = _log_choose(trials, counts)
    logs += special.betaln(counts + a, trials - counts + b) - special.betaln(a, b)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _log_choose(trials: int, counts: Floats) -> Floats:
    found = special.gammaln(trials + 1) - special.gammaln(counts + 1)
    return np.asarray(found - special.gammaln(trials - counts + 1), dtype=np.float64)


def power_lines(table: PowerTable) -> Iterator[tuple[str, tuple[PowerRow, ...]]]:
    """The rows under what their rates stand for, in order."""
    for world in _GRID:
        yield world, tuple(row for row in table.rows if row.world == world)
