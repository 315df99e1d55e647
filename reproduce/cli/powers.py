"""Operating characteristics of a policy: the chance of each verdict, by enumeration."""

from collections.abc import Callable, Mapping
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
from reproduce.report.as_json import document
from reproduce.report.look import Look, columns, draw, indent

MOST_TRIALS = 200
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

_SHORT: Mapping[Status, str] = {
    Status.REPRODUCTION_PINNED: "pinned",
    Status.PARTIAL: "partial",
    Status.WEAK_SIGNAL: "weak",
    Status.UNRESOLVED: "unresolved",
    Status.NOT_REPRODUCED: "not reproduced",
}
"""In the order of `Status`."""

Floats: TypeAlias = NDArray[np.float64]
Judge: TypeAlias = Callable[[Tally, Tally], Status]
Mass: TypeAlias = Callable[[int, float], Floats]
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

    def situations(self) -> tuple[str, ...]:
        """What is true of the trials, each once."""
        return tuple(dict.fromkeys(row.trials for row in self.rows))

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
    situations = (
        ("all resolved", whole, _independent),
        (f"{unresolved} unresolved", _verdicts(policy, trials, unresolved), _independent),
        (f"correlated by {float(CORRELATION):g}", whole, _clustered),
    )
    rows = tuple(
        PowerRow(world, title, *rates, _chances(table, pmf, *rates))
        for world, pairs in _GRID.items()
        for rates in pairs
        for title, table, pmf in situations
    )
    return PowerTable(policy, trials, rows)


def _chances(table: Table, pmf: Mass, treatment: str, control: str) -> tuple[float, ...]:
    """The table's verdicts weighed with the probabilities of its counts."""
    size = len(table) - 1
    mass = np.outer(pmf(size, float(treatment)), pmf(size, float(control)))
    chances = np.bincount(table.ravel(), mass.ravel(), minlength=len(Status))
    return tuple(min(1.0, float(chance)) for chance in chances)


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
    from policies import strict_v1, strict_v2

    judge = {"strict/1": strict_v1.judge, "strict/2": strict_v2.judge}[policy.name]
    return lambda treatment, control: judge(0, treatment, control).status


def _binomial(policy: PolicyRef, trials: int, unresolved: int) -> Judge:
    """The rules of `binomial/1`, its facts read off the frontiers between tables."""
    from policies.binomial_v1_parameters import parsed
    from policies.binomial_v1_rules import Facts, arm_of, classify, unread
    from policies.stats.power import first_established, last_excluded

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


def power_json(table: PowerTable) -> str:
    """The table as one JSON document; chances with six digits."""
    return document(
        {
            "schema": "reproduce.power/1",
            "policy": table.policy.name,
            "parameters": {one.name: one.value for one in table.policy.parameters},
            "trials": table.trials,
            "false_claims": {one: f"{table.false_claims(one):.6f}" for one in table.situations()},
            "rows": [
                {
                    "world": row.world,
                    "trials": row.trials,
                    "treatment_rate": row.treatment,
                    "control_rate": row.control,
                    "chances": dict(zip(Status, (f"{c:.6f}" for c in row.chances), strict=True)),
                }
                for row in table.rows
            ],
        }
    )


def power_text(table: PowerTable, look: Look) -> str:
    """The table for people, with what it says of false claims first."""
    title = f"{table.policy.name} with {table.trials} trials in each of two conditions"
    claims = [
        indent(
            look.text(
                f"no effect, {one}: pinned or partial with at most "
                f"{table.false_claims(one):.4f} at these rates"
            )
        )
        for one in table.situations()
    ]
    drawn = [draw((look.text(title, "bold"), *claims), look)]
    for world in _GRID:
        rows = columns(look, ("treatment", "control", "trials", *_SHORT.values()))
        for row in table.rows:
            if row.world == world:
                chances = (f"{chance:.4f}" for chance in row.chances)
                cells = (row.treatment, row.control, row.trials, *chances)
                rows.add_row(*(look.text(cell) for cell in cells))
        drawn.append(draw((look.text(f"true rates: {world}", "bold"), indent(rows)), look))
    drawn.append(draw((look.text("exact, by enumeration of every table of counts"),), look))
    return "\n".join(drawn)
