"""Factors, their levels, and the conditions that they span."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeAlias

from pydantic import Field

from matrices.errors import MatrixError
from matrices.record import Record

Name = Annotated[str, Field(pattern=r"^[a-z0-9_-]+$", max_length=64)]
"""How factors, levels, symptoms and knobs are named."""

MAX_CONDITIONS = 10_000
"""More conditions than one investigation can report on; keeps a typing slip from filling memory."""


class Setting(Record):
    """One thing about the world of a trial: its name, and its value as text."""

    name: str
    value: str


class Level(Record):
    """One value of a factor: what it sets, each value as canonical JSON text."""

    name: Name
    settings: tuple[Setting, ...] = ()


class Factor(Record):
    """A dimension of the matrix and its levels, in the order in which they were declared."""

    name: Name
    levels: tuple[Level, ...] = Field(min_length=1)

    def level(self, name: str) -> Level:
        """The level called `name`.

        Raises:
            KeyError: the factor has no such level.
        """
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(name)


class Choice(Record):
    """The level that a condition takes for one factor."""

    factor: Name
    level: Name


Assignment: TypeAlias = tuple[Choice, ...]
"""One level for every factor, in the order of the factors."""

Pattern: TypeAlias = Mapping[str, Sequence[str]]
"""A partial assignment: for some factors the levels that agree with it."""


def agrees(assignment: Assignment, pattern: Pattern) -> bool:
    """Whether the assignment takes one of the pattern's levels for each factor the pattern names."""
    taken = {choice.factor: choice.level for choice in assignment}
    return all(taken.get(factor) in levels for factor, levels in pattern.items())


def check_pattern(pattern: Pattern, factors: Sequence[Factor], *, place: str) -> None:
    """Refuses a pattern that names a factor or level which the matrix does not have.

    Raises:
        MatrixError: names the place, the unknown name and the known ones.
    """
    known = {factor.name: factor for factor in factors}
    for factor_name, levels in pattern.items():
        if factor_name not in known:
            message = f"no factor is called `{factor_name}`"
            raise MatrixError(message, place=place, hint=_choices("factors", list(known)))
        names = [level.name for level in known[factor_name].levels]
        for level in levels:
            if level not in names:
                message = f"factor `{factor_name}` has no level `{level}`"
                raise MatrixError(message, place=place, hint=_choices("levels", names))


def expand(
    factors: Sequence[Factor],
    *,
    include: Sequence[Pattern] = (),
    exclude: Sequence[Pattern] = (),
) -> tuple[Assignment, ...]:
    """The product of the factors without what `exclude` removes, then what `include` adds back.

    The last factor varies fastest. An included pattern names one level for every factor and
    appears once, whether or not the product already had it.

    Raises:
        MatrixError: a pattern names unknown levels, an include is partial, or nothing is left.
    """
    for kind, patterns in (("include", include), ("exclude", exclude)):
        for index, pattern in enumerate(patterns):
            check_pattern(pattern, factors, place=f"matrix.{kind}[{index}]")
    size = 1
    for factor in factors:
        size *= len(factor.levels)
    if size > MAX_CONDITIONS:
        message = f"the matrix spans {size} conditions; at most {MAX_CONDITIONS} are taken"
        raise MatrixError(message, place="matrix", hint="split the investigation")
    kept = [cell for cell in _product(factors) if not any(agrees(cell, p) for p in exclude)]
    for index, pattern in enumerate(include):
        cell = _included(pattern, factors, place=f"matrix.include[{index}]")
        if cell not in kept:
            kept.append(cell)
    if not kept:
        message = "every condition is excluded"
        raise MatrixError(message, place="matrix.exclude", hint="remove an exclusion")
    return tuple(kept)


def _product(factors: Sequence[Factor]) -> Iterator[Assignment]:
    for levels in itertools.product(*(factor.levels for factor in factors)):
        yield tuple(
            Choice(factor=factor.name, level=level.name)
            for factor, level in zip(factors, levels, strict=True)
        )


def _included(pattern: Pattern, factors: Sequence[Factor], *, place: str) -> Assignment:
    choices = []
    for factor in factors:
        levels = pattern.get(factor.name, ())
        if len(levels) != 1:
            message = f"an included condition names one level of `{factor.name}`"
            raise MatrixError(message, place=place, hint="name every factor with one level")
        choices.append(Choice(factor=factor.name, level=levels[0]))
    return tuple(choices)


def _choices(what: str, names: Sequence[str]) -> str:
    return f"{what}: " + ", ".join(f"`{name}`" for name in names)
