"""The parameters of `binomial/1`: their defaults, their ranges and their exact values.

Frozen with the policy: a change of meaning is a new version beside it.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from matrices import Plan, PolicyRef, Setting
from policies.model import PolicyError

NAME = "binomial/1"

DEFAULTS = {"alpha": "0.05", "max_unresolved": "0.2", "min_effect": "0.1", "unresolved": "0"}
"""What is written into a plan that does not say; `power` has no default."""

OPTIONAL = "power"

MOST_TRIALS = 20_000
"""Trials a condition above which a plan is refused: a comparison would take minutes."""

LEAST_ALPHA = Fraction(1, 10**6)
"""Far above the mass of 1e-12 that a comparison of large arms may skip."""

_STEPS = 1000


class Parameters(NamedTuple):
    """The parameters as exact rationals."""

    alpha: Fraction
    """Error of each one-sided comparison and of each printed limit."""
    min_effect: Fraction
    """The smallest difference of rates that matters."""
    max_unresolved: Fraction
    """The share of an arm that may be unresolved."""
    unresolved: Fraction
    """The share of each arm that planning expects to be unresolved."""
    power: Fraction | None
    """The probability of `REPRODUCTION_PINNED` that the plan demands, if it does."""


def written_out(given: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return the given parameters with every default beside them, sorted by name.

    Raises:
        PolicyError: a parameter is unknown, not a decimal or out of its range.
    """
    known = (*DEFAULTS, OPTIONAL)
    for name in given:
        if name not in known:
            message = f"`{NAME}` has no parameter `{name}`"
            hint = "parameters: " + ", ".join(f"`{key}`" for key in sorted(known))
            raise PolicyError(message, place=f"policy.{name}", hint=hint)
    values = sorted({**DEFAULTS, **given}.items())
    settings = tuple(Setting(name=name, value=value) for name, value in values)
    parsed(PolicyRef(name=NAME, parameters=settings))
    return settings


def completed(reference: PolicyRef) -> PolicyRef:
    """Return the reference with every default written out.

    Raises:
        PolicyError: a parameter is unknown, not a decimal or out of its range.
    """
    given = {setting.name: setting.value for setting in reference.parameters}
    return PolicyRef(name=NAME, parameters=written_out(given))


def parsed(reference: PolicyRef) -> Parameters:
    """Return the parameters of a policy reference, defaults filled in.

    Raises:
        PolicyError: a parameter is not a decimal or out of its range.
    """
    alpha = _number(reference, "alpha")
    if not LEAST_ALPHA <= alpha <= Fraction(1, 2):
        raise _out_of_range("alpha", alpha, "from 0.000001 to 0.5")
    effect = _number(reference, "min_effect")
    if not 0 < effect < 1 or (effect * _STEPS).denominator != 1:
        raise _out_of_range("min_effect", effect, "a multiple of 0.001 between 0 and 1")
    most = _number(reference, "max_unresolved")
    if not 0 <= most < 1:
        raise _out_of_range("max_unresolved", most, "at least 0 and below 1")
    share = _number(reference, "unresolved")
    if not 0 <= share < 1:
        raise _out_of_range("unresolved", share, "at least 0 and below 1")
    power = None
    if reference.parameter(OPTIONAL) is not None:
        power = _number(reference, OPTIONAL)
        if not 0 < power < 1:
            raise _out_of_range(OPTIONAL, power, "between 0 and 1")
    return Parameters(
        alpha=alpha, min_effect=effect, max_unresolved=most, unresolved=share, power=power
    )


def _number(reference: PolicyRef, name: str) -> Fraction:
    text = reference.parameter(name)
    text = DEFAULTS[name] if text is None else text
    digits = text.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()):
        message = f"`{name}` is not a decimal number: {text!r}"
        hint = f'write it as text with digits and a point, such as "{DEFAULTS.get(name, "0.8")}"'
        raise PolicyError(message, place=f"policy.{name}", hint=hint)
    return Fraction(text)


def _out_of_range(name: str, value: Fraction, expected: str) -> PolicyError:
    message = f"`{name}` is {float(value):g}, and must be {expected}"
    return PolicyError(message, place=f"policy.{name}", hint=f"choose `{name}` {expected}")


def require_served(plan: Plan) -> None:
    """Refuse what this version does not serve.

    Raises:
        PolicyError: the plan has several contrasts or too many trials.
    """
    if len(plan.contrasts) > 1:
        message = f"`{NAME}` compares one treatment with one control, not {len(plan.contrasts)}"
        hint = "leave one treatment and one control condition, or use `strict/2`"
        raise PolicyError(message, place="arms", hint=hint)
    if plan.budget.trials > MOST_TRIALS:
        message = f"{plan.budget.trials} trials a condition are more than {MOST_TRIALS}"
        hint = f"plan at most {MOST_TRIALS} trials a condition"
        raise PolicyError(message, place="budget.trials", hint=hint)


def decimal(value: Fraction) -> str:
    """Return a declared number, not below 0, exactly and without needless digits.

    Raises:
        ValueError: the number has no finite decimal expansion.
    """
    rest, places = value.denominator, 0
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        places = max(places, power)
    if rest != 1:
        message = f"{value} is not a decimal number"
        raise ValueError(message)
    whole, part = divmod(value.numerator * (10**places // value.denominator), 10**places)
    return f"{whole}.{part:0{places}d}" if places else str(whole)
