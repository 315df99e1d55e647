"""Arms: which conditions are treatment, which are control, and which pairs are compared."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from matrices.errors import MatrixError
from matrices.factors import Assignment, Factor, Pattern, agrees, check_pattern


class Role(StrEnum):
    """What the plan expects of an arm."""

    TREATMENT = "treatment"
    """The symptom is expected here."""

    CONTROL = "control"
    """The symptom is not expected here."""


class Pair(NamedTuple):
    """A treatment condition and the control condition of its stratum, by their positions."""

    stratum: str
    treatment: int
    control: int


class Arms(NamedTuple):
    """The conditions with their roles and strata, all in one order, and the pairs to compare."""

    roles: tuple[Role, ...]
    strata: tuple[str, ...]
    pairs: tuple[Pair, ...]


def assign(
    conditions: Sequence[Assignment],
    factors: Sequence[Factor],
    arms: Mapping[Role, Pattern],
) -> Arms:
    """The role and the stratum of every condition, and the contrasts.

    Both arms name the same factors. The remaining factors make the strata; each stratum has one
    control and at least one treatment condition.

    Raises:
        MatrixError: the arms name different factors, or a condition is in neither or in both
            arms, or a stratum lacks an arm or has two controls.
    """
    for role in Role:
        if role not in arms:
            message = f"the `{role}` arm is missing"
            raise MatrixError(message, place="arms", hint="name both arms")
        check_pattern(arms[role], factors, place=f"arms.{role}")
    treatment, control = arms[Role.TREATMENT], arms[Role.CONTROL]
    if not treatment or set(treatment) != set(control):
        message = f"the arms name different factors: {_names(treatment)} and {_names(control)}"
        hint = "both arms name the same factors, at least one"
        raise MatrixError(message, place="arms", hint=hint)
    roles = tuple(_role(condition, arms) for condition in conditions)
    strata = tuple(_stratum(condition, contrast=set(treatment)) for condition in conditions)
    return Arms(roles=roles, strata=strata, pairs=_pairs(roles, strata))


def _names(pattern: Pattern) -> str:
    return ", ".join(f"`{name}`" for name in pattern) or "none"


def label(assignment: Assignment) -> str:
    """How a condition is called: `factor=level`, in the order of the factors."""
    return " ".join(f"{choice.factor}={choice.level}" for choice in assignment)


def _role(condition: Assignment, arms: Mapping[Role, Pattern]) -> Role:
    found = [role for role in Role if agrees(condition, arms[role])]
    if len(found) == 1:
        return found[0]
    where = "both arms" if found else "no arm"
    hint = (
        "make the arms disjoint"
        if found
        else "name its levels in an arm, or remove it with `[[matrix.exclude]]`"
    )
    message = f"condition `{label(condition)}` is in {where}"
    raise MatrixError(message, place="arms", hint=hint)


def _stratum(condition: Assignment, *, contrast: set[str]) -> str:
    return label(tuple(choice for choice in condition if choice.factor not in contrast))


def _pairs(roles: Sequence[Role], strata: Sequence[str]) -> tuple[Pair, ...]:
    pairs = []
    for stratum in dict.fromkeys(strata):
        members = [index for index, name in enumerate(strata) if name == stratum]
        controls = [index for index in members if roles[index] is Role.CONTROL]
        treatments = [index for index in members if roles[index] is Role.TREATMENT]
        shown = f"stratum `{stratum}`" if stratum else "the matrix"
        if not (controls and treatments):
            lacking = Role.TREATMENT if controls else Role.CONTROL
            message = f"{shown} has no {lacking} condition"
            raise MatrixError(message, place="arms", hint="every stratum needs both arms")
        if len(controls) > 1:
            message = f"{shown} has {len(controls)} control conditions"
            hint = "name one control level, or exclude the others"
            raise MatrixError(message, place="arms.control", hint=hint)
        pairs += [Pair(stratum, index, controls[0]) for index in treatments]
    return tuple(pairs)
